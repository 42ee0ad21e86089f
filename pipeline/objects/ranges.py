"""The bytes of one object, for readers who ask as of a file: in ranges of some MiB, however small what is asked for is.

Each range is a request, which costs its money and tens of milliseconds whatever its size. So what is asked for in small pieces, one
behind the other, with less than AHEAD_MAX_BYTES between (the headers of batches), comes in ranges that grow up to that; what is asked
for at once comes as it is. What two reads have in common is fetched once.

The object must stay what it was when its name was listed: that is looked at when it is opened, and again by `check` when all of it
is read, for a store that replaces it meanwhile says nothing.
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
    """What tells an object from one that takes its name later. Names as those of `os.stat_result`."""

    st_ino: int
    st_size: int
    st_ctime_ns: int

    @classmethod
    def of(cls, info: FileInfo) -> ObjectStatus:
        time_ns, size_bytes = info.mtime_ns or 0, info.size or 0
        return cls(time_ns << 64 | size_bytes, size_bytes, time_ns)


class ObjectFile:
    """`File`, for reading. Nothing is asked of the store before something is read."""

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
            filesystem: Gives the file system, and the path in it.
            status: What it was when it was listed. Another one is an error once it is read.
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
        """Show less. The object keeps all."""
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
        """Nothing: what is read is fetched then."""

    def check(self) -> None:
        """See that what was read is still there, and is the same object.

        Raises:
            SourceChangedError: It is not.
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
        """Have at least these bytes in `_data`."""
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
            raise OSError(errno.EIO, f"{size_bytes} bytes wanted at {start}, {len(data)} came")
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
        return ObjectStatus.of(filesystem.get_file_info(path))

    @staticmethod
    def _tag_of(file: NativeFile) -> object:
        """What the store itself says of an object with each answer: its ETag, its generation."""
        return dict(file.metadata() or {}) if hasattr(file, "metadata") else None

    def _changed(self) -> SourceChangedError:
        return SourceChangedError(
            f"{self.address} is another object now, or gone: the copy was changed while it was read; call again when it is whole"
        )

    def append(self, data: Buffer) -> None:
        self._refuse()

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        self._refuse()

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        self._refuse()

    def drop_ahead(self) -> None:
        """Nothing was begun."""

    def preallocate(self, size_bytes: int) -> None:
        self._refuse()

    def sync(self) -> None:
        self._refuse()

    def fileno(self) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EROFS, "opened for reading only", self.address)
