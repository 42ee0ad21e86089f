"""The cleaner's choice, for tests in which nothing interrupts it."""

from __future__ import annotations

from ottla.server.coordination.jobs import to_the_end
from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.cleaning.dirtiness import LogToClean


def filthiest(manager: CleanerManager, now_ms: int) -> LogToClean | None:
    """Run `CleanerManager.filthiest` to its end."""
    return to_the_end(manager.filthiest(now_ms))
