"""The three indexes of a segment: by offset, by time, and of aborted transactions.

    .index      8 bytes an entry    i32 offset - base | i32 position
    .timeindex  12 bytes            i64 timestamp     | i32 offset - base
    .txnindex   34 bytes            i16 version 0 | i64 producer id | i64 first | i64 last offset | i64 LSO after it

All big endian, without header. The first two are sparse: an offset entry says "the batch that ends with this offset
starts at this position", a time entry "up to this offset the largest timestamp is this". index_file.py has what they share,
and when they reach the disk.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar, NamedTuple

from ..disk import paths
from ..disk.files import Files
from .index_file import IndexFile, SparseIndex

_OFFSET_ENTRY = struct.Struct(">ii")
_OFFSET = struct.Struct(">q")
_FIRST_OFFSET_AT, _LAST_OFFSET_AT, _LAST_STABLE_OFFSET_AT = 10, 18, 26

ENTRIES_PER_BLOCK = 256
"""Entries of a transaction index that a search reads or skips together."""
WRITTEN_AT_ONCE = 1 << 14
"""Entries of a transaction index, half a megabyte of them, that are written to the file as soon as it lacks them."""


class AbortedTxn(NamedTuple):
    """One aborted transaction, in the index of the segment that contains its ABORT marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's offset."""
    last_stable_offset: int
    """The LSO just after the marker."""


class OffsetIndex(SparseIndex):
    """Map from an offset to a position in the log file at or before its batch."""

    ENTRY_BYTES = 8
    OFFSETS_AT, VALUES_AT, VALUE_TYPE, STRICTLY = 0, 4, "i", True

    @property
    def last_entry(self) -> tuple[int, int]:
        """(offset, position) of the last entry; (base offset, 0) if the index is empty."""
        if not self._loaded:
            self._load()
        return self._entry(len(self._values) - 1)

    def last_entry_in_file(self) -> tuple[int, int] | None:
        """Read the last entry, and nothing else, from the file; None if it has no entry."""
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
            ValueError: Not above the last entry's offset, more than 31 bits above the base, or the index is
                full. Nothing is added.
        """
        if not self._loaded:
            self._load()
        relative = self._relative(offset)
        if self._offsets and relative <= self._offsets[-1]:
            raise ValueError(f"{(offset, position)} does not come after {self.last_entry}: {self.path}")
        self._add(relative, position, self._max_count)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return (offset, position) of the last entry at or below `offset`; (base offset, 0) if none is."""
        if not self._loaded:
            self._load()
        # Another thread may be adding an entry, whose value comes last.
        return self._entry(bisect_right(self._offsets, offset - self.base_offset, 0, len(self._values)) - 1)

    def floor_of_position(self, position: int) -> tuple[int, int]:
        """Return (offset, position) of the last entry at or below byte `position`; (base offset, 0) if none is."""
        if not self._loaded:
            self._load()
        return self._entry(bisect_right(self._values, position) - 1)

    @property
    def columns(self) -> tuple[array[int], array[int]]:
        """Offsets relative to the base offset, and positions, for a bisection. The caller changes neither."""
        if not self._loaded:
            self._load()
        return self._offsets, self._values

    def entries(self) -> list[tuple[int, int]]:
        """All entries, as (offset, position)."""
        if not self._loaded:
            self._load()
        return [self._entry(slot) for slot in range(len(self._values))]

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return self.base_offset, 0
        return self.base_offset + self._offsets[slot], self._values[slot]


class TimeIndex(SparseIndex):
    """Map from a timestamp to an offset below which no record is later."""

    ENTRY_BYTES = 12
    OFFSETS_AT, VALUES_AT, VALUE_TYPE, STRICTLY = 8, 0, "q", False
    KEPT_COUNT = 1  # for the entry that closes it

    @property
    def last_entry(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if the index is empty."""
        if not self._loaded:
            self._load()
        return self._entry(len(self._values) - 1)

    def append(self, timestamp: int, offset: int, *, force: bool = False) -> None:
        """Add that up to `offset` the largest timestamp is `timestamp`. The same timestamp again adds nothing.

        Args:
            force: Add the final entry, which has a reserved place. But a full index also gets it: `segment.index.bytes` may have
                been larger when the file was written.

        Raises:
            ValueError: Timestamp or offset below the last entry's, more than 31 bits above the base, or
                the index is full. Nothing is added.
        """
        if not self._loaded:
            self._load()
        relative = self._relative(offset)
        last_timestamp, last_offset = self._entry(len(self._values) - 1)
        if timestamp < last_timestamp or offset < last_offset:
            raise ValueError(f"{(timestamp, offset)} does not come after {self.last_entry}: {self.path}")
        if timestamp > last_timestamp:
            count = len(self._offsets) + 1 if force else self._max_count - self.KEPT_COUNT
            self._add(relative, timestamp, count)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return (timestamp, offset) of the last entry at or before `timestamp`; (-1, base offset) if none is."""
        if not self._loaded:
            self._load()
        return self._entry(bisect_right(self._values, timestamp) - 1)

    def entries(self) -> list[tuple[int, int]]:
        """All entries, as (timestamp, offset)."""
        if not self._loaded:
            self._load()
        return [self._entry(slot) for slot in range(len(self._values))]

    def _entry(self, slot: int) -> tuple[int, int]:
        if slot < 0:
            return -1, self.base_offset
        return self._values[slot], self.base_offset + self._offsets[slot]


class TransactionIndex(IndexFile):
    """The aborted transactions whose marker is in the segment, by the marker's offset.

    One segment may have millions of them, so memory has the bytes of the file. Both their last offsets and their last stable
    offsets never decrease.
    """

    ENTRY_BYTES = 34
    FILE_WHEN_EMPTY = False

    _ENTRY: ClassVar[struct.Struct] = struct.Struct(">hqqqq")
    _VERSION: ClassVar[int] = 0
    _data: bytearray
    _earliest: array[int]
    _block_earliest: int

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Make an index without size limit, as every marker is a record of the segment."""
        super().__init__(files, path, base_offset)
        self._clear()

    @property
    def is_known_empty(self) -> bool:
        """Whether the index is loaded and empty."""
        return self._loaded and not self._data

    def append(self, txn: AbortedTxn) -> None:
        """Add a transaction whose marker was just appended to the segment.

        Raises:
            ValueError: Its last offset is not above that of the last entry. Nothing is added.
        """
        if not self._loaded:
            self._load()
        count = self._count()
        if count and txn.last_offset <= self._entry(count - 1).last_offset:
            raise ValueError(f"{txn} does not come after {self._entry(count - 1)}: {self.path}")
        self._add(self._ENTRY.pack(self._VERSION, *txn), txn.first_offset)
        self._is_file_current = False
        if count + 1 - self._written_count >= WRITTEN_AT_ONCE:
            # The rest is written when the segment rolls, which blocks all clients. A refused write is tried again then.
            with suppress(OSError):
                self.flush(sync=False)

    def entries(self, from_slot: int = 0) -> list[AbortedTxn]:
        """Return the entries from number `from_slot` on."""
        if not self._loaded:
            self._load()
        return [self._entry(slot) for slot in range(from_slot, self._count())]

    def collect_aborted(self, from_offset: int, upper_offset: int) -> tuple[Iterator[AbortedTxn], bool]:
        """Find the transactions that overlap `from_offset` (inclusive) to `upper_offset` (exclusive).

        Returns:
            (An iterator over the transactions, whether the search is complete). If it is not, later segments may have more.
            The iterator stays valid. It may yield very many; each step takes a few milliseconds at most.
        """
        if not self._loaded:
            self._load()
        slots = range(self._count())
        start = bisect_left(slots, from_offset, key=self._last_offset)
        # After the first one whose LSO reaches `upper_offset`, nothing below it was undecided: later ones began above.
        end = bisect_left(slots, upper_offset, lo=start, key=self._last_stable_offset)
        is_complete = end < len(slots)
        return self._overlapping(start, end + is_complete, upper_offset), is_complete

    def _overlapping(self, slot: int, end: int, upper_offset: int) -> Iterator[AbortedTxn]:
        data, earliest = self._data, self._earliest
        if min(earliest, default=upper_offset) >= upper_offset:  # mostly few, or none was open for long
            slot = max(slot, min(end, len(earliest) * ENTRIES_PER_BLOCK))
        while slot < end:
            block = slot // ENTRIES_PER_BLOCK
            block_end = min(end, (block + 1) * ENTRIES_PER_BLOCK)
            if block >= len(earliest) or earliest[block] < upper_offset:
                for at in range(slot * self.ENTRY_BYTES, block_end * self.ENTRY_BYTES, self.ENTRY_BYTES):
                    if _OFFSET.unpack_from(data, at + _FIRST_OFFSET_AT)[0] < upper_offset:
                        yield AbortedTxn(*self._ENTRY.unpack_from(data, at)[1:])
            slot = block_end

    def _add(self, entry: bytes, first_offset: int) -> None:
        self._data += entry
        self._block_earliest = min(self._block_earliest, first_offset)
        if self._count() % ENTRIES_PER_BLOCK == 0:
            self._earliest.append(self._block_earliest)
            self._block_earliest = paths.OFFSET_MAX

    def _entry(self, slot: int) -> AbortedTxn:
        return AbortedTxn(*self._ENTRY.unpack_from(self._data, slot * self.ENTRY_BYTES)[1:])

    def _last_offset(self, slot: int) -> int:
        offset: int = _OFFSET.unpack_from(self._data, slot * self.ENTRY_BYTES + _LAST_OFFSET_AT)[0]
        return offset

    def _last_stable_offset(self, slot: int) -> int:
        offset: int = _OFFSET.unpack_from(self._data, slot * self.ENTRY_BYTES + _LAST_STABLE_OFFSET_AT)[0]
        return offset

    def _count(self) -> int:
        return len(self._data) // self.ENTRY_BYTES

    def _clear(self) -> None:
        self._data = bytearray()
        self._earliest = array("q")
        """The first offset of the earliest transaction of each full block of entries."""
        self._block_earliest = paths.OFFSET_MAX

    def _decode(self, data: bytes) -> None:
        earliest = array("q")
        block_earliest = paths.OFFSET_MAX
        previous = self.base_offset - 1
        for count, (version, _, first_offset, last_offset, _) in enumerate(self._ENTRY.iter_unpack(data), 1):
            if version != self._VERSION:
                raise self._corrupt(f"unknown version {version} of an entry")
            if last_offset <= previous:
                raise self._corrupt(f"last offset {last_offset} is not greater than {previous}")
            previous = last_offset
            block_earliest = min(block_earliest, first_offset)
            if count % ENTRIES_PER_BLOCK == 0:
                earliest.append(block_earliest)
                block_earliest = paths.OFFSET_MAX
        self._data, self._earliest, self._block_earliest = bytearray(data), earliest, block_earliest

    def _encode(self, start: int, stop: int) -> bytes:
        return bytes(self._data[start * self.ENTRY_BYTES : stop * self.ENTRY_BYTES])
