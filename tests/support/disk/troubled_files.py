"""A real disk on which chosen operations on chosen files raise chosen errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from ottla.storage.disk.files import Buffer, WriteAhead
from ottla.storage.disk.os_files import OsFile, OsFiles

Trouble = Callable[[str, str], None]
"""Called before an operation, with its name and the path; may raise. `create` is an `open` that creates the file."""


def nothing(operation: str, path: str) -> None:
    """Raise nothing: no trouble."""


def trouble(error: Exception, *operations: str, at: str) -> Trouble:
    """Raise `error` from these operations on every path that contains `at`."""

    def raise_it(operation: str, path: str) -> None:
        if operation in operations and at in path:
            raise error

    return raise_it


def full(at: str = "") -> Trouble:
    """Return the trouble of a full disk, or of one that is full only for the files with `at` in their paths."""
    return trouble(OSError(errno.ENOSPC, "No space left on device"), "append", "create", at=at)


class _Asking:
    """A `WriteAhead` that calls the disk's trouble first."""

    def __init__(self, ahead: WriteAhead, files: TroubledFiles, path: str) -> None:
        self.ahead, self._files, self._path = ahead, files, path

    @property
    def is_written(self) -> bool:
        return self.ahead.is_written

    @property
    def is_dropped(self) -> bool:
        return self.ahead.is_dropped

    def write(self) -> None:
        self._files.trouble("append", self._path)
        self.ahead.write()


class TroubledFile(OsFile):
    """A file that calls its disk's trouble first."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: TroubledFiles, path: str, descriptor: int) -> None:
        super().__init__(descriptor)
        self._files, self._path = files, path

    def append(self, data: Buffer) -> None:
        self._files.trouble("append", self._path)
        super().append(data)

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        return _Asking(super().write_ahead(data, head_bytes), self._files, self._path)

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        assert isinstance(ahead, _Asking)
        try:
            self._files.trouble("append", self._path)
        except OSError:
            self.drop_ahead()
            raise
        super().append_ahead(ahead.ahead, head)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._files.trouble("read", self._path)
        return super().read_at(position, size_bytes)

    def read_into(self, position: int, buffer: memoryview) -> int:
        self._files.trouble("read", self._path)
        return super().read_into(position, buffer)

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        self._files.trouble("read", self._path)
        return super().read_now(position, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        self._files.trouble("truncate", self._path)
        super().truncate(size_bytes)

    def sync(self) -> None:
        self._files.trouble("sync", self._path)
        super().sync()


class TroubledFiles(OsFiles):
    """`OsFiles` with a `trouble`, which may be replaced at any time."""

    def __init__(self) -> None:
        self.trouble: Trouble = nothing

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        self.trouble("create" if create and not os.path.exists(path) else "open", path)
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_TRUNC if truncate else 0)
        return TroubledFile(self, path, os.open(path, flags, 0o644))

    def rename(self, old: str, new: str) -> None:
        self.trouble("rename", old)
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.trouble("remove", path)
        super().remove(path)

    def remove_dir(self, path: str) -> None:
        self.trouble("remove", path)
        super().remove_dir(path)

    def list(self, directory: str) -> list[str]:
        self.trouble("list", directory)
        return super().list(directory)

    def sync_dir(self, path: str) -> None:
        self.trouble("sync", path)
        super().sync_dir(path)
