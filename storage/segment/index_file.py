"""Common part of a segment's indexes: entries in memory, and a file that is brought up to date from time to time.

Entries are appended to memory only; `flush` brings the file up to date (at roll, flush and clean stop). After any other
stop recovery rebuilds the indexes from the log, so no append has to wait for them. A file is read on first use.

One thread appends and truncates; `flush` and lookups may run in another, but never during a truncation.
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
"""Largest offset relative to the segment's base: index entries have 31 bits for it."""

POSITION_MAX = 2**31 - 1
"""Largest position in the log file: index entries have 31 bits for it."""

CHECKED_WHOLE_MAX = 4096
ENTRIES_PER_SECTOR = 32
"""Less than the number of sparse index entries in 512 bytes, the smallest unit that disks lose."""


class IndexFile(ABC):
    """Base of the three indexes: a path, a lazily read file, and how much of it is up to date."""

    ENTRY_BYTES: ClassVar[int]
    FILE_WHEN_EMPTY: ClassVar[bool] = True
    """Whether an empty index has a file: Kafka's loader rebuilds a segment whose index file is missing."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Make an index without reading its file. A missing file is the same as an empty one."""
        self.path = path
        self.base_offset = base_offset
        self.is_new = False
        """Whether this object made the file, and the directory was not synced since; the caller resets this."""
        self._files = files
        # Two flushes must not both append the missing entries. And the cleaner's thread loads the indexes of segments before
        # it renames them. Another thread that is loading one must have opened its file by then, or it would find no file and
        # take it for an empty one. One lock for each index: a disk that hangs must not block the others.
        self._using_file = threading.Lock()
        self._loaded = False
        self._written_count = 0  # leading entries that are the same in the file; valid once loaded
        self._is_file_current = False
        self._is_file_synced = False

    @property
    def is_loaded(self) -> bool:
        """Whether lookups read no file."""
        return self._loaded

    @property
    def unwritten_count(self) -> int:
        """Number of entries that the next flush may have to write."""
        return self._count() - self._written_count if self._loaded else 0

    @property
    def entry_count(self) -> int:
        """Number of entries, flushed or not. Reads only the size of the file."""
        if self._loaded:
            return self._count()
        return self._files.size(self.path) // self.ENTRY_BYTES if self._files.exists(self.path) else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries, flushed or not."""
        return self.entry_count * self.ENTRY_BYTES

    def sanity_check(self) -> None:
        """Read the file now if it has not been read.

        Raises:
            DamagedFileError: The file is not a whole number of entries, or they contradict each other or the segment's base.
                So do the zeros at the end of a file that Apache Kafka had preallocated when it was killed.
        """
        if not self._loaded:
            self._load()

    def reset(self) -> None:
        """Remove all entries without reading the file, which may be damaged. The next flush updates the file."""
        self._clear()
        self._loaded = True
        self._cut_written(0)

    def flush(self, *, sync: bool) -> None:
        """Write the entries that the file lacks; with `sync`, make it survive a power loss, except its name.

        An index that was neither read nor changed is left alone.
        """
        if self._loaded and not self._is_file_current:
            # Set before the entries are read, so that an append during the flush marks the file as out of date.
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
        """Change the path, and rename the file if it exists. The directory is not synced."""
        with self._using_file:  # or a thread that is writing would create the file under the old name
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
            self._written_count = 0  # not the file that was read
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
            raise self._corrupt(f"size of {len(data)} bytes is not a multiple of the entry size")
        self._decode(data)
        self._written_count = len(data) // self.ENTRY_BYTES
        self._is_file_current = self._is_file_synced = is_current
        self._loaded = True

    def _cut_written(self, count: int) -> None:
        """Note that at most the first `count` entries of the file are still right."""
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
        """Take the entries of a file whose size is right, or raise DamagedFileError and change nothing."""

    @abstractmethod
    def _encode(self, start: int, stop: int) -> bytes:
        """Return the bytes of the entries from `start` up to, not including, `stop`."""


class SparseIndex(IndexFile):
    """Base of the offset index and the time index: two increasing columns, of offsets and their values."""

    OFFSETS_AT: ClassVar[int]
    VALUES_AT: ClassVar[int]
    VALUE_TYPE: ClassVar[str]
    STRICTLY: ClassVar[bool]
    """Whether offsets never repeat. Values never do."""
    KEPT_COUNT = 0
    """Number of entries reserved for the end of the segment, which no batch gets."""

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        """Make an index of at most `max_bytes`, which is `segment.index.bytes`."""
        super().__init__(files, path, base_offset)
        # At least one entry, for the final entry of the time index. Apache Kafka also accepts a `segment.index.bytes` below
        # the size of an entry, and then cannot make the index (IllegalArgumentException).
        self._max_count = max(1, max_bytes // self.ENTRY_BYTES)
        self._clear()

    @property
    def room(self) -> int:
        """Number of entries that still fit before the segment must roll."""
        return self._max_count - self.KEPT_COUNT - self.entry_count

    @property
    def is_full(self) -> bool:
        """Whether the segment must roll before another entry."""
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
        """Add entries that the caller has made by the index's rules, as relative offsets and values. They must fit."""
        self._offsets.extend(offsets)
        self._values.extend(values)
        self._is_file_current = False

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:
            raise ValueError(f"offset {offset} is out of range for an index with base offset {self.base_offset}")
        return relative

    def _add(self, relative: int, value: int, max_count: int) -> None:
        if len(self._offsets) >= max_count:
            raise ValueError(f"{self.path} is full with {len(self._offsets)} entries")
        self._offsets.append(relative)
        self._values.append(value)  # last, so that a flush in another thread counts only whole entries
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
            raise self._corrupt("an offset is below the base offset")
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

_WORD = "i"


def _column(typecode: str, data: bytes, at: int, stride: int) -> array[int]:
    """Read the big-endian integers that start at byte `at` of every `stride` bytes, both a multiple of a word's size."""
    column = array(typecode)
    width = column.itemsize
    if typecode == _WORD:
        column = array(_WORD, data)[at // width :: stride // width]  # a slice of words takes as long as one of bytes
    else:
        packed = bytearray(len(data) // stride * width)
        for byte in range(width):
            packed[byte::width] = data[at + byte :: stride]
        column.frombytes(packed)
    if sys.byteorder == "little":
        column.byteswap()
    return column


def _set_column(data: bytearray, column: array[int], at: int, stride: int) -> None:
    """Write the integers of `column` back, the reverse of `_column`. Changes `column`."""
    if sys.byteorder == "little":
        column.byteswap()
    packed = column.tobytes()
    for byte in range(column.itemsize):
        data[at + byte :: stride] = packed[byte :: column.itemsize]


def _is_increasing(column: array[int], *, strictly: bool) -> bool:
    """Whether each number is above the one before (not below it, unless `strictly`).

    A long column is only sampled, densely enough to find any damaged disk sector. To compare all of a full index takes tens
    of milliseconds, and loading may happen during a fetch.
    """
    seen = column if len(column) <= CHECKED_WHOLE_MAX else column[::ENTRIES_PER_SECTOR] + column[-1:]
    following = iter(seen)
    next(following, None)
    return all(map(operator.lt if strictly else operator.le, seen, following))
