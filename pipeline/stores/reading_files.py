"""The operating system's files for jobs that only read: what they must not change they cannot change."""

from __future__ import annotations

import errno
import os

from ...storage.disk.files import File, Ownership
from ...storage.disk.os_files import OsFile, OsFiles


class ReadingFiles(OsFiles):
    """The operating system's files, none of which can be changed through it."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create or truncate:
            self._refuse(path)
        return OsFile(os.open(path, os.O_RDONLY))

    def rename(self, old: str, new: str) -> None:
        self._refuse(old)

    def remove(self, path: str) -> None:
        self._refuse(path)

    def link(self, old: str, new: str) -> None:
        self._refuse(new)

    def make_dir(self, path: str) -> None:
        self._refuse(path)

    def remove_dir(self, path: str) -> None:
        self._refuse(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self._refuse(path)

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> None:
        raise OSError(errno.EROFS, "opened for reading only", path)


class LogFile(OsFile):
    """A file opened for reading. It shows the size that it had then, less when it was "truncated": the disk keeps all."""

    def truncate(self, size_bytes: int) -> None:
        self._size = min(self._size, size_bytes)


class LogFiles(ReadingFiles):
    """`ReadingFiles` that open `LogFile`s."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> LogFile:
        if create or truncate:
            self._refuse(path)
        return LogFile(os.open(path, os.O_RDONLY))


def inode_of(file: File) -> int:
    """Tells a file from one that took its name later."""
    return os.fstat(file.fileno()).st_ino
