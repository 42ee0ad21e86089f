"""A real disk on which a clean pass, or any thread that opens a file, waits until the test lets it continue."""

from __future__ import annotations

import threading

import trio

from ottla.storage.disk.os_files import OsFile, OsFiles

PATIENCE_S = 60


class GatedFiles(OsFiles):
    """A disk on which opening a file whose path contains `at` waits for `let_on`; by default the first `.cleaned` segment."""

    def __init__(self, at: str = ".log.cleaned") -> None:
        self.at = at
        self._reached = threading.Event()
        self._gate = threading.Event()

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if self.at in path:
            self._reached.set()
            self._gate.wait(PATIENCE_S)
        return super().open(path, create=create, truncate=truncate)

    async def reached(self) -> None:
        """Return once a thread waits."""
        await trio.to_thread.run_sync(self.wait_until_reached)

    def wait_until_reached(self) -> None:
        """Block until a thread waits."""
        assert self._reached.wait(PATIENCE_S), f"nobody opened {self.at}"

    def let_on(self) -> None:
        """Let the waiting threads continue, and all later ones."""
        self._gate.set()
