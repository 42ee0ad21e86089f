"""The three indexes of a segment: by offset, by time, and of aborted transactions.

    .index      8 bytes an entry    i32 offset - base | i32 position
    .timeindex  12 bytes            i64 timestamp     | i32 offset - base
    .txnindex   34 bytes            i16 version 0 | i64 producer id | i64 first | i64 last offset | i64 LSO after it

All big endian, without header. The first two are sparse: an offset entry says "the batch that ends with this offset
starts at this position", a time entry "up to this offset the largest timestamp is this".

Entries live in memory, in compact arrays that are read from the file on first use. `append` touches memory only;
`flush` brings the file up to date (at roll, flush and clean stop). After any other stop recovery rebuilds the indexes
from the log, so no append has to wait for them. Appending and truncating belong to one thread; `flush` and lookups
may run in another, but never beside a truncation.
"""

from __future__ import annotations

import operator
import struct
import sys
import threading
from array import array
from bisect import bisect_left, bisect_right
from typing import ClassVar, NamedTuple

from .files import Files

RELATIVE_OFFSET_MAX = 2**31 - 1
"""Index entries hold offsets relative to the segment's base, in 31 bits."""

_OFFSET_ENTRY = struct.Struct(">ii")

# Two flushes of one index must not both append what is missing. The writes are short; the syncs are outside.
_write_lock = threading.Lock()

CHECKED_WHOLE_MAX = 4096
ENTRIES_PER_SECTOR = 32
"""Of the smallest unit that disks lose, 512 bytes, every index has more entries than this."""


class CorruptIndexError(Exception):
    """An index file contradicts itself. Rebuild it from the log."""


class InvalidOffsetError(ValueError):
    """An entry that does not continue the index: a mistake of the caller."""


class AbortedTxn(NamedTuple):
    """One aborted transaction, in the index of the segment that holds its ABORT marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's offset."""
    last_stable_offset: int
    """The LSO just after the marker."""


class _SegmentIndex:
    """What the three have in common: a path, a lazily read file, and how much of it is up to date."""

    ENTRY_BYTES: ClassVar[int]
    FILE_WHEN_EMPTY: ClassVar[bool] = True
    """Kafka's loader rebuilds a segment whose index file is missing, so an empty one is written all the same."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Nothing is read yet; the file may be missing, which is the same as empty."""
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._loaded = False
        self._written_count = 0  # leading entries that the file holds as memory does; counts once loaded
        self._is_file_current = False
        self._is_file_synced = False

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
            CorruptIndexError: It is no whole number of entries, or they contradict each other or the segment's base.
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
                with _write_lock:
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
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.path = path

    def _write_missing(self) -> None:
        count = self._count()
        if count == 0 and not self.FILE_WHEN_EMPTY and not self._files.exists(self.path):
            return
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

    def _corrupt(self, what: str) -> CorruptIndexError:
        return CorruptIndexError(f"{self.path}: {what}")

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:
            raise InvalidOffsetError(f"offset {offset} does not fit an index with base offset {self.base_offset}")
        return relative

    def _count(self) -> int:
        raise NotImplementedError

    def _clear(self) -> None:
        raise NotImplementedError

    def _decode(self, data: bytes) -> None:
        raise NotImplementedError

    def _encode(self, start: int, stop: int) -> bytes:
        raise NotImplementedError


class OffsetIndex(_SegmentIndex):
    """From an offset to a position in the log file at or before its batch."""

    ENTRY_BYTES = 8

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        """`max_bytes` is `segment.index.bytes`: with less room than one more entry the index is full."""
        super().__init__(files, path, base_offset)
        self.max_bytes = max_bytes
        self._max_count = max_bytes // self.ENTRY_BYTES
        self._clear()

    @property
    def is_full(self) -> bool:
        """Whether the segment has to roll before another entry."""
        return self.entry_count >= self._max_count

    @property
    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry; (base offset, 0) if there is none."""
        if not self._loaded:
            self._load()
        return self._entry(len(self._positions) - 1)

    def last_entry_in_file(self) -> tuple[int, int] | None:
        """What `last_entry` will say, without reading more of the file than that; None if it holds no entry."""
        if not self._files.exists(self.path):
            return None
        file = self._files.open(self.path)
        data = file.read_at(max(0, file.size() - self.ENTRY_BYTES), self.ENTRY_BYTES)
        file.close()
        if len(data) < self.ENTRY_BYTES:
            return None
        relative, position = _OFFSET_ENTRY.unpack(data)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        """Add that the batch whose last offset is `offset` starts at byte `position`.

        Raises:
            InvalidOffsetError: Not above the last entry's offset, more than 31 bits above the base, or the index is
                full. Nothing is added.
        """
        if not self._loaded:
            self._load()
        relative = self._relative(offset)
        offsets = self._offsets
        if offsets and relative <= offsets[-1]:
            raise InvalidOffsetError(f"offset {offset} is not above {self.base_offset + offsets[-1]}: {self.path}")
        if len(offsets) >= self._max_count:
            raise InvalidOffsetError(f"{self.path} is full with {len(offsets)} entries")
        offsets.append(relative)
        self._positions.append(position)
        self._is_file_current = False

    def lookup(self, offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or below `offset`; (base offset, 0) if there is none."""
        if not self._loaded:
            self._load()
        return self._entry(bisect_right(self._offsets, offset - self.base_offset) - 1)

    def floor_of_position(self, position: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or below byte `position`; (base offset, 0) if there is none."""
        if not self._loaded:
            self._load()
        return self._entry(bisect_right(self._positions, position) - 1)

    def entries(self) -> list[tuple[int, int]]:
        """All entries, as (offset, position)."""
        if not self._loaded:
            self._load()
        return [(self.base_offset + relative, at) for relative, at in zip(self._offsets, self._positions, strict=False)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        if not self._loaded:
            self._load()
        count = bisect_left(self._offsets, offset - self.base_offset)
        del self._offsets[count:], self._positions[count:]
        self._cut_written(count)

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot], self._positions[slot]

    def _count(self) -> int:
        return len(self._positions)  # appended to last, so a flush beside an append sees whole entries

    def _clear(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def _decode(self, data: bytes) -> None:
        offsets, positions = _column("i", data, 0, 8), _column("i", data, 4, 8)
        if offsets and offsets[0] < 0:
            raise self._corrupt("an offset lies below the base offset")
        if not _is_increasing(offsets, strictly=True):
            raise self._corrupt("offsets do not increase")
        if positions and (positions[0] < 0 or not _is_increasing(positions, strictly=True)):
            raise self._corrupt("positions do not increase")
        self._offsets, self._positions = offsets, positions

    def _encode(self, start: int, stop: int) -> bytes:
        data = bytearray(self.ENTRY_BYTES * (stop - start))
        _set_column(data, self._offsets[start:stop], 0, 8)
        _set_column(data, self._positions[start:stop], 4, 8)
        return bytes(data)


class TimeIndex(_SegmentIndex):
    """From a timestamp to an offset before which no record is as late."""

    ENTRY_BYTES = 12

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        """`max_bytes` is `segment.index.bytes`."""
        super().__init__(files, path, base_offset)
        self.max_bytes = max_bytes
        self._max_count = max_bytes // self.ENTRY_BYTES
        self._clear()

    @property
    def is_full(self) -> bool:
        """Whether the segment has to roll: one place is kept for the entry that closes a segment."""
        return self.entry_count >= self._max_count - 1

    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none."""
        if not self._loaded:
            self._load()
        return self._entry(len(self._offsets) - 1)

    def append(self, timestamp: int, offset: int, *, force: bool = False) -> None:
        """Add that up to `offset` the largest timestamp is `timestamp`. The same timestamp again adds nothing.

        Args:
            force: Also into the place kept for the last entry.

        Raises:
            InvalidOffsetError: Timestamp or offset below the last entry's, more than 31 bits above the base, or
                the index is full. Nothing is added.
        """
        if not self._loaded:
            self._load()
        relative = self._relative(offset)
        last_timestamp, last_offset = self._entry(len(self._offsets) - 1)
        if timestamp < last_timestamp or offset < last_offset:
            raise InvalidOffsetError(
                f"entry ({timestamp}, {offset}) lies below the last one ({last_timestamp}, {last_offset}): {self.path}"
            )
        if timestamp == last_timestamp:
            return
        if not force and len(self._offsets) >= self._max_count - 1:
            raise InvalidOffsetError(f"{self.path} is full with {len(self._offsets)} entries")
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        self._is_file_current = False

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """(timestamp, offset) of the last entry at or before `timestamp`; (-1, base offset) if there is none."""
        if not self._loaded:
            self._load()
        return self._entry(bisect_right(self._timestamps, timestamp) - 1)

    def entries(self) -> list[tuple[int, int]]:
        """All entries, as (timestamp, offset)."""
        if not self._loaded:
            self._load()
        return [
            (time, self.base_offset + relative) for time, relative in zip(self._timestamps, self._offsets, strict=False)
        ]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or above `offset`."""
        if not self._loaded:
            self._load()
        count = bisect_left(self._offsets, offset - self.base_offset)
        del self._timestamps[count:], self._offsets[count:]
        self._cut_written(count)

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return -1, self.base_offset
        return self._timestamps[slot], self.base_offset + self._offsets[slot]

    def _count(self) -> int:
        return len(self._offsets)

    def _clear(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def _decode(self, data: bytes) -> None:
        timestamps, offsets = _column("q", data, 0, 12), _column("i", data, 8, 12)
        if offsets and offsets[0] < 0:
            raise self._corrupt("an offset lies below the base offset")
        if not _is_increasing(timestamps, strictly=True):
            raise self._corrupt("timestamps do not increase")
        if not _is_increasing(offsets, strictly=False):
            raise self._corrupt("offsets decrease")
        self._timestamps, self._offsets = timestamps, offsets

    def _encode(self, start: int, stop: int) -> bytes:
        data = bytearray(self.ENTRY_BYTES * (stop - start))
        _set_column(data, self._timestamps[start:stop], 0, 12)
        _set_column(data, self._offsets[start:stop], 8, 12)
        return bytes(data)


class TransactionIndex(_SegmentIndex):
    """The aborted transactions whose marker lies in the segment, by the marker's offset."""

    ENTRY_BYTES = 34
    FILE_WHEN_EMPTY = False

    _ENTRY: ClassVar[struct.Struct] = struct.Struct(">hqqqq")
    _VERSION: ClassVar[int] = 0

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """No size limit: markers are few, and every one is a record of the segment."""
        super().__init__(files, path, base_offset)
        self._clear()

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction whose marker was just appended to the segment.

        Raises:
            InvalidOffsetError: Its last offset is not above that of the last entry. Nothing is added.
        """
        if not self._loaded:
            self._load()
        if self._txns and txn.last_offset <= self._txns[-1].last_offset:
            raise InvalidOffsetError(f"{txn} does not come after {self._txns[-1]}: {self.path}")
        self._txns.append(txn)
        self._is_file_current = False

    def entries(self) -> list[AbortedTxn]:
        """All entries."""
        if not self._loaded:
            self._load()
        return list(self._txns)

    def collect_aborted(self, from_offset: int, upper_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The transactions that overlap `from_offset` (inclusive) to `upper_offset` (exclusive).

        Returns:
            They, and whether the search is over; if not, the next segments may hold more.
        """
        if not self._loaded:
            self._load()
        found = []
        for txn in self._txns:
            if txn.last_offset >= from_offset and txn.first_offset < upper_offset:
                found.append(txn)
            if txn.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose marker lies at or above `offset`."""
        if not self._loaded:
            self._load()
        count = bisect_left(self._txns, offset, key=lambda txn: txn.last_offset)
        del self._txns[count:]
        self._cut_written(count)

    def _count(self) -> int:
        return len(self._txns)

    def _clear(self) -> None:
        self._txns: list[AbortedTxn] = []

    def _decode(self, data: bytes) -> None:
        txns: list[AbortedTxn] = []
        previous = self.base_offset - 1
        for version, *fields in self._ENTRY.iter_unpack(data):
            txn = AbortedTxn(*fields)
            if version != self._VERSION:
                raise self._corrupt(f"an entry has the unknown version {version}")
            if txn.last_offset <= previous:
                raise self._corrupt(f"last offset {txn.last_offset} is not above {previous}")
            previous = txn.last_offset
            txns.append(txn)
        self._txns = txns

    def _encode(self, start: int, stop: int) -> bytes:
        return b"".join(self._ENTRY.pack(self._VERSION, *txn) for txn in self._txns[start:stop])


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
