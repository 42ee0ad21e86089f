"""A real disk on which worker threads stop before one operation, until the test lets it continue or refuses it."""

from __future__ import annotations

import errno
import os
import threading

import trio

from ottla.storage.disk.files import Buffer
from ottla.storage.disk.os_files import OsFile, OsFiles

PATIENCE_S = 60


class SteppedFiles(OsFiles):
    """A disk that, while armed, counts the changes of worker threads from 0; number `at` waits."""

    def __init__(self) -> None:
        self._at: int | None = None
        self._lock = threading.Lock()
        self.disarm()

    def arm(self, at: int) -> None:
        """Restart the count, and stop before change number `at`."""
        self.disarm()
        self._at = at

    def disarm(self) -> None:
        self._at = None
        self.count = 0
        """Number of changes since `arm`."""
        self._refuses = False
        self._reached = threading.Event()
        self._gate = threading.Event()

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def let_on(self, *, refuse: bool) -> None:
        """Let the change continue, or fail as on a full disk."""
        self._refuses = refuse
        self._gate.set()

    def step(self, path: str) -> None:
        """Count a change that is about to be made."""
        if self._at is None or threading.current_thread() is threading.main_thread():
            return
        with self._lock:
            number = self.count
            self.count += 1
        if number == self._at:
            self._reached.set()
            assert self._gate.wait(PATIENCE_S), f"nobody let on {path}"
            if self._refuses:
                raise OSError(errno.ENOSPC, "No space left on device", path)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create or truncate:
            self.step(path)
        opened = super().open(path, create=create, truncate=truncate)
        return SteppedFile(self, path, opened)

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        self.step(path)
        super().make_dir(path, mode=mode)

    def rename(self, old: str, new: str) -> None:
        self.step(new)
        super().rename(old, new)

    def sync_dir(self, path: str) -> None:
        self.step(path)
        super().sync_dir(path)


class SteppedFile(OsFile):
    __slots__ = ("_files", "_path")

    def __init__(self, files: SteppedFiles, path: str, opened: OsFile) -> None:
        super().__init__(os.dup(opened.fileno()))
        opened.close()
        self._files = files
        self._path = path

    def append(self, data: Buffer) -> None:
        self._files.step(self._path)
        super().append(data)

    def sync(self) -> None:
        self._files.step(self._path)
        super().sync()


async def reached_or(files: SteppedFiles, over: trio.Event) -> bool:
    """Return True once the change waits, or False once everything has ended without it."""
    while not files.is_reached and not over.is_set():
        await trio.lowlevel.checkpoint()
    return files.is_reached
