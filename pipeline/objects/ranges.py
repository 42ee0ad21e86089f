"""Bytes of one object for readers of files, fetched in ranges of some MiB even for small reads.

Each range is a request, which costs money and tens of milliseconds whatever its size. Small reads that follow each other with
gaps below AHEAD_MAX_BYTES (headers of batches) are served from ranges that grow up to that size. Large reads are fetched as
they are. Bytes that two reads share are fetched once.

The object must stay the one that was listed. That is checked when it is opened, and again by `check` after everything was read,
as a store does not report a replacement.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ...storage.disk.files import Buffer, WriteAhead
from ..errors import SourceChangedError
from .failures import patiently

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileInfo, FileSystem

AHEAD_MIN_BYTES = 64 << 10
AHEAD_MAX_BYTES = 4 << 20
_GROWTH = 4


class ObjectStatus(NamedTuple):
    """Identity of an object, which differs if another object takes its name. Fields are named as in `os.stat_result`."""

    st_ino: int
    st_size: int
    st_ctime_ns: int

    @classmethod
    def from_info(cls, info: FileInfo) -> ObjectStatus:
        time_ns, size_bytes = info.mtime_ns or 0, info.size or 0
        return cls(time_ns << 64 | size_bytes, size_bytes, time_ns)


class ObjectFile:
    """`File`, for reading. No request is sent before the first read."""

    def __init__(
        self,
        filesystem: Callable[[], tuple[FileSystem, str]],
        address: str,
        status: ObjectStatus,
        start: int = 0,
        size_bytes: int | None = None,
    ) -> None:
        """
        Args:
            filesystem: Returns the file system, and the path in it.
            status: The listed object. Reading another one is an error.
            start, size_bytes: Show this piece of it.
        """
        self.address = address
        self.identity = status.st_ino
        self._filesystem = filesystem
        self._status = status
        self._start = start
        self._size = status.st_size if size_bytes is None else size_bytes
        self._file: NativeFile | None = None
        self._tag: object = None
        self._reading = threading.RLock()
        self._data: bytes = b""
        self._at = 0
        self._ahead = AHEAD_MIN_BYTES
        self._is_closed = False

    def status(self) -> ObjectStatus:
        return self._status

    def size(self) -> int:
        return self._size

    def mtime_ms(self) -> int:
        return self._status.st_ctime_ns // 1_000_000

    def truncate(self, size_bytes: int) -> None:
        """Show fewer bytes. The object is unchanged."""
        self._size = min(self._size, size_bytes)

    def close(self) -> None:
        self._is_closed = True
        with self._reading:
            self._file, self._data = None, b""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        with self._reading:
            if self._is_closed:
                raise OSError(errno.EBADF, "closed", self.address)
            end = min(position + size_bytes, self._size)
            if end <= position:
                return b""
            if not self._at <= position <= end <= self._at + len(self._data):
                self._fetch(position, end)
            start = position - self._at
            if not start and end - position == len(self._data):
                return self._data
            return self._data[start : start + end - position]

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read_at(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        return self.read_at(position, size_bytes)

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        return max(0, min(position + size_bytes, self._size) - position)

    def read_ahead(self, position: int, size_bytes: int) -> None:
        """Do nothing: bytes are fetched when they are read."""

    def check(self) -> None:
        """Check that the object that was read still exists, and is the same.

        Raises:
            SourceChangedError: It was deleted or replaced.
        """
        if self._file is None:
            return
        try:
            is_same = patiently(self._is_same, self.address)
        except FileNotFoundError as error:
            raise self._changed() from error
        if not is_same:
            raise self._changed()

    def _is_same(self) -> bool:
        return self._tag_of(self._open()) == self._tag and (bool(self._tag) or self._status_now() == self._status)

    def _fetch(self, position: int, end: int) -> None:
        """Fetch at least these bytes into `_data`."""
        known_end = self._at + len(self._data)
        goes_on = bool(self._data) and self._at <= position < known_end + AHEAD_MAX_BYTES
        self._ahead = min(self._ahead * _GROWTH, AHEAD_MAX_BYTES) if goes_on else AHEAD_MIN_BYTES
        kept = self._data[position - self._at :] if goes_on else b""
        start = position + len(kept)
        wanted_bytes = min(max(end - start, self._ahead if end - position < AHEAD_MAX_BYTES else 0), self._size - start)
        fetched = patiently(lambda: self._range(start, wanted_bytes), self.address)
        self._data, self._at = (kept + fetched if kept else fetched), position

    def _range(self, start: int, size_bytes: int) -> bytes:
        try:
            data: bytes = self._opened().read_at(size_bytes, self._start + start)
        except FileNotFoundError as error:
            raise self._changed() from error
        if len(data) != size_bytes:
            raise OSError(errno.EIO, f"expected {size_bytes} bytes at {start}, received {len(data)}")
        return data

    def _opened(self) -> NativeFile:
        if self._file is None:
            opened = self._open()
            if opened.size() != self._status.st_size or self._status_now() != self._status:
                raise self._changed()
            self._file, self._tag = opened, self._tag_of(opened)
        return self._file

    def _open(self) -> NativeFile:
        filesystem, path = self._filesystem()
        return filesystem.open_input_file(path)

    def _status_now(self) -> ObjectStatus:
        filesystem, path = self._filesystem()
        return ObjectStatus.from_info(filesystem.get_file_info(path))

    @staticmethod
    def _tag_of(file: NativeFile) -> object:
        """Return the store's own version of an object: its ETag, its generation."""
        return dict(file.metadata() or {}) if hasattr(file, "metadata") else None

    def _changed(self) -> SourceChangedError:
        return SourceChangedError(
            f"{self.address} was replaced or deleted: the copy was changed while it was read; call again when it is complete"
        )

    def append(self, data: Buffer) -> None:
        self._refuse()

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        self._refuse()

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        self._refuse()

    def drop_ahead(self) -> None:
        """Do nothing: no write was begun."""

    def preallocate(self, size_bytes: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def fileno(self) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "opened for reading only", self.address)
