"""What the indexes of a segment have in common: entries in memory, and a file that catches up with them.

Entries are appended to memory only; `flush` brings the file up to date (at roll, flush and clean stop). After any other
stop recovery rebuilds the indexes from the log, so no append has to wait for them. A file is read on first use.

Appending and truncating belong to one thread; `flush` and lookups may run in another, but never beside a truncation.
"""

from __future__ import annotations

import operator
import sys
import threading
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from typing import ClassVar

from ..disk.files import DamagedFileError, Files

RELATIVE_OFFSET_MAX = 2**31 - 1
"""Index entries hold offsets relative to the segment's base, in 31 bits."""

POSITION_MAX = 2**31 - 1
"""And so they do positions in the log file."""

CHECKED_WHOLE_MAX = 4096
ENTRIES_PER_SECTOR = 32
"""Of the smallest unit that disks lose, 512 bytes, every sparse index has more entries than this."""


class IndexFile(ABC):
    """What the three have in common: a path, a lazily read file, and how much of it is up to date."""

    ENTRY_BYTES: ClassVar[int]
    FILE_WHEN_EMPTY: ClassVar[bool] = True
    """Kafka's loader rebuilds a segment whose index file is missing, so an empty one is written all the same."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Nothing is read yet; the file may be missing, which is the same as empty."""
        self.path = path
        self.base_offset = base_offset
        self.is_new = False
        """Whether this object made the file, and nobody has synced the directory since; the caller sets it back."""
        self._files = files
        # Two flushes must not both append what is missing. And the cleaner's thread loads the indexes of the segments that it
        # is about to rename: who is loading one of them meanwhile must have opened its file by then, or would take a file
        # that has another name now for an empty one. Each index has its own: one disk that hangs must not hold up the others.
        self._using_file = threading.Lock()
        self._loaded = False
        self._written_count = 0  # leading entries that the file holds as memory does; counts once loaded
        self._is_file_current = False
        self._is_file_synced = False

    @property
    def is_loaded(self) -> bool:
        """Whether a look-up reads no file."""
        return self._loaded

    @property
    def unwritten_count(self) -> int:
        """Entries that the next flush may have to write."""
        return self._count() - self._written_count if self._loaded else 0

    @property
    def entry_count(self) -> int:
        """Entries in the index, flushed or not. Does not read the file, only its size."""
        if self._loaded:
            return self._count()
        return self._files.size(self.path) // self.ENTRY_BYTES if self._files.exists(self.path) else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries, flushed or not."""
        return self.entry_count * self.ENTRY_BYTES

    def sanity_check(self) -> None:
        """Read the file now if that has not happened.

        Raises:
            DamagedFileError: It is no whole number of entries, or they contradict each other or the segment's base.
                The zero tail of a file that Apache Kafka had preallocated when it was killed counts as that.
        """
        if not self._loaded:
            self._load()

    def reset(self) -> None:
        """Forget all entries without reading the file, however broken. The file follows at the next flush."""
        self._clear()
        self._loaded = True
        self._cut_written(0)

    def flush(self, *, sync: bool) -> None:
        """Write what the file lacks; with `sync`, make it survive a power loss (its name aside).

        An index that nobody has read or changed is left alone.
        """
        if self._loaded and not self._is_file_current:
            # Read before the entries, so that an append beside us leaves the file marked as behind.
            self._is_file_current = True
            try:
                with self._using_file:
                    self._write_missing()
            except BaseException:
                self._is_file_current = False
                raise
        if sync and self._loaded and not self._is_file_synced and self._files.exists(self.path):
            file = self._files.open(self.path)
            file.sync()
            file.close()
            self._is_file_synced = True

    def rename(self, path: str) -> None:
        """Take another path, with the file if there is one. The directory is not synced."""
        with self._using_file:  # or who is writing it would leave it under the old name
            if self._files.exists(self.path):
                self._files.rename(self.path, path)
            self.path = path

    def _write_missing(self) -> None:
        count = self._count()
        if count == 0 and not self.FILE_WHEN_EMPTY and not self._files.exists(self.path):
            return
        self.is_new = self.is_new or not self._files.exists(self.path)
        file = self._files.open(self.path, create=True)
        if file.size() < self._written_count * self.ENTRY_BYTES:
            self._written_count = 0  # not the file that we knew
        kept_bytes = self._written_count * self.ENTRY_BYTES
        if file.size() != kept_bytes:
            self._is_file_synced = False
            file.truncate(kept_bytes)
        if count > self._written_count:
            self._is_file_synced = False
            file.append(self._encode(self._written_count, count))
            self._written_count = count
        file.close()

    def _load(self) -> None:
        with self._using_file:
            if not self._loaded:
                self._load_file()

    def _load_file(self) -> None:
        data, is_current = b"", False
        if self._files.exists(self.path):
            file = self._files.open(self.path)
            data = file.read_at(0, file.size())
            file.close()
            is_current = True
        if len(data) % self.ENTRY_BYTES:
            raise self._corrupt(f"{len(data)} bytes are no whole number of entries")
        self._decode(data)
        self._written_count = len(data) // self.ENTRY_BYTES
        self._is_file_current = self._is_file_synced = is_current
        self._loaded = True

    def _cut_written(self, count: int) -> None:
        """Only the first `count` entries of the file may still be right."""
        self._written_count = min(self._written_count, count)
        self._is_file_current = False

    def _corrupt(self, what: str) -> DamagedFileError:
        return DamagedFileError(f"{self.path}: {what}")

    @abstractmethod
    def _count(self) -> int: ...

    @abstractmethod
    def _clear(self) -> None: ...

    @abstractmethod
    def _decode(self, data: bytes) -> None:
        """Take the entries of a file whose size is right, or raise DamagedFileError and leave all as it is."""

    @abstractmethod
    def _encode(self, start: int, stop: int) -> bytes:
        """The bytes of the entries from `start` up to, not including, `stop`."""


class SparseIndex(IndexFile):
    """What offset and time index have in common: two increasing columns, offsets and what is known of each."""

    OFFSETS_AT: ClassVar[int]
    VALUES_AT: ClassVar[int]
    VALUE_TYPE: ClassVar[str]
    STRICTLY: ClassVar[bool]
    """Whether offsets, too, never repeat. Values never do."""
    KEPT_COUNT = 0
    """Of the entries that there may be, those that no batch gets."""

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        """`max_bytes` is `segment.index.bytes`."""
        super().__init__(files, path, base_offset)
        # One entry at least, in which the time index of a segment ends. Apache Kafka accepts a `segment.index.bytes` below
        # the size of an entry, too, and then cannot make the index (IllegalArgumentException).
        self._max_count = max(1, max_bytes // self.ENTRY_BYTES)
        self._clear()

    @property
    def room(self) -> int:
        """How many more entries there may be before the segment has to roll."""
        return self._max_count - self.KEPT_COUNT - self.entry_count

    @property
    def is_full(self) -> bool:
        """Whether the segment has to roll before another entry. Each append asks."""
        if self._loaded:
            return len(self._values) >= self._max_count - self.KEPT_COUNT
        return self.room <= 0

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        if not self._loaded:
            self._load()
        count = bisect_left(self._offsets, offset - self.base_offset)
        if count < len(self._offsets):
            del self._offsets[count:], self._values[count:]
            self._cut_written(count)

    def extend(self, offsets: array[int], values: array[int]) -> None:
        """Add entries that somebody made by the index's rules, as relative offsets and values; there is room for them."""
        self._offsets.extend(offsets)
        self._values.extend(values)
        self._is_file_current = False

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:
            raise ValueError(f"offset {offset} does not fit an index with base offset {self.base_offset}")
        return relative

    def _add(self, relative: int, value: int, max_count: int) -> None:
        if len(self._offsets) >= max_count:
            raise ValueError(f"{self.path} is full with {len(self._offsets)} entries")
        self._offsets.append(relative)
        self._values.append(value)  # last, so that a flush beside us counts whole entries only
        self._is_file_current = False

    def _count(self) -> int:
        return len(self._values)

    def _clear(self) -> None:
        self._offsets = array("i")
        self._values = array(self.VALUE_TYPE)

    def _decode(self, data: bytes) -> None:
        offsets = _column("i", data, self.OFFSETS_AT, self.ENTRY_BYTES)
        values = _column(self.VALUE_TYPE, data, self.VALUES_AT, self.ENTRY_BYTES)
        if offsets and offsets[0] < 0:
            raise self._corrupt("an offset lies below the base offset")
        if not _is_increasing(offsets, strictly=self.STRICTLY):
            raise self._corrupt("offsets do not increase")
        if not _is_increasing(values, strictly=True):
            raise self._corrupt("positions or timestamps do not increase")
        self._offsets, self._values = offsets, values

    def _encode(self, start: int, stop: int) -> bytes:
        data = bytearray(self.ENTRY_BYTES * (stop - start))
        _set_column(data, self._offsets[start:stop], self.OFFSETS_AT, self.ENTRY_BYTES)
        _set_column(data, self._values[start:stop], self.VALUES_AT, self.ENTRY_BYTES)
        return bytes(data)


# An index of a full segment has a quarter of a million entries. Slices with a stride move the bytes of a column in C,
# a hundred times faster than unpacking entry by entry.


def _column(typecode: str, data: bytes, at: int, stride: int) -> array[int]:
    """The big-endian integers that start at byte `at` of every `stride` bytes."""
    column = array(typecode)
    width = column.itemsize
    packed = bytearray(len(data) // stride * width)
    for byte in range(width):
        packed[byte::width] = data[at + byte :: stride]
    column.frombytes(packed)
    if sys.byteorder == "little":
        column.byteswap()
    return column


def _set_column(data: bytearray, column: array[int], at: int, stride: int) -> None:
    """The reverse of `_column`; `column` is the caller's to spoil."""
    if sys.byteorder == "little":
        column.byteswap()
    packed = column.tobytes()
    for byte in range(column.itemsize):
        data[at + byte :: stride] = packed[byte :: column.itemsize]


def _is_increasing(column: array[int], *, strictly: bool) -> bool:
    """Whether each number is above the one before (not below it, unless `strictly`).

    A long column is looked at in so many places that no damaged disk sector escapes; to compare all of a full
    index takes tens of milliseconds, and loading happens in the middle of a fetch.
    """
    seen = column if len(column) <= CHECKED_WHOLE_MAX else column[::ENTRIES_PER_SECTOR] + column[-1:]
    following = iter(seen)
    next(following, None)
    return all(map(operator.lt if strictly else operator.le, seen, following))
