"""The real disk, on which a clean pass, or whoever opens a file, stands still until the test lets it on."""

from __future__ import annotations

import threading

import trio

from ottla.storage.disk.os_files import OsFile, OsFiles

PATIENCE_S = 60


class GatedFiles(OsFiles):
    """Opening a file whose path has `at` in it waits for `let_on`: unless told otherwise, the first `.cleaned` segment."""

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
        """Return once somebody waits."""
        await trio.to_thread.run_sync(self.wait_until_reached)

    def wait_until_reached(self) -> None:
        """The same, for a thread."""
        assert self._reached.wait(PATIENCE_S), f"nobody opened {self.at}"

    def let_on(self) -> None:
        """Let them go on, and all after them."""
        self._gate.set()
