"""The real disk, on which a clean pass stands still until the test lets it on."""

from __future__ import annotations

import threading

import trio

from ottla.storage.files import OsFile, OsFiles

PATIENCE_S = 60


class GatedFiles(OsFiles):
    """Opening the first `.cleaned` segment waits for `let_on`."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._gate = threading.Event()

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if ".log.cleaned" in path:
            self._reached.set()
            self._gate.wait(PATIENCE_S)
        return super().open(path, create=create, truncate=truncate)

    async def pass_reached(self) -> None:
        """Return once a pass waits."""
        assert await trio.to_thread.run_sync(self._reached.wait, PATIENCE_S), "no clean pass began"

    def let_on(self) -> None:
        """Let the pass go on, and all after it."""
        self._gate.set()
