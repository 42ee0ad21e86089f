"""Offset map of one clean pass: which records of the dirty part are the newest of their key.

Filled by `map_builder` in offset order, then read by `clean_rules`. This module has its memory; `kernel.KeyMap` does the work:

    table       key -> ordinal of its newest record so far
    versions    in a map with versions: version and offset of the record of each key that wins
    dead        one bit a record: 1 = a newer record of its key was seen, or it has no key
    tombstones  one bit a record: 1 = it has no value

The table has 96 bits of a keyed hash of each key, with a secret drawn for the pass. So an entry costs the same for all keys,
and a client cannot construct two keys that the map takes for one.
"""

from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Iterable
from contextlib import suppress

from ..kernel import KeyMap, clear
from ..topics.versions import VersionSource

BYTES_PER_SLOT = 16
"""Bytes of `log.cleaner.dedupe.buffer.size` per entry."""

SECRET_BYTES = 16

# Probing does not wrap around: the last entries overflow into slots after the others. Untouched pages cost nothing.
_SLACK_SLOTS = 1 << 16
_RECORDS_MAX = 2**32 - 2
"""Largest number of records: an ordinal takes 32 bits of a slot, and 0 marks a free slot."""

_BITS_MIN = 1 << 16

_HUGE_FROM_BYTES = 4 << 20
"""Tables from this size on ask for huge pages: 64 MB are mapped and released in 8 ms instead of 45, and every probe is a
little faster."""

_RELEASED_BYTES = 2 << 20
"""Memory that one call returns to the system, in a quarter of a millisecond."""


def entries_max(buffer_bytes: int, load_factor: float) -> int:
    """Return the number of keys that a map of that size takes in one pass.

    Raises:
        ValueError: Fewer than two: no pass would make progress.
    """
    entries = int(buffer_bytes // BYTES_PER_SLOT * load_factor)
    if entries <= 1:
        raise ValueError(
            f"offset map too small: {buffer_bytes} bytes with load factor {load_factor} cannot hold two keys"
        )
    return entries


class TableMemory:
    """Memory for the tables of one cleaner thread; for one map at a time.

    Kept from pass to pass, because new pages can cost as much time as the map itself.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._words = memoryview(b"").cast("Q")

    @property
    def size_bytes(self) -> int:
        """Bytes of memory kept."""
        return self._words.nbytes

    def zeros(self, size_bytes: int) -> memoryview:
        """Return `size_bytes` of memory as 64-bit words, all 0. Views returned before must no longer be used."""
        words = size_bytes // 8
        if words <= len(self._words):
            clear(self._words[:words])
        else:
            self.release()
            self._memory = _zeros(size_bytes)
            self._words = memoryview(self._memory).cast("Q")
        return self._words[:words]

    def release(self) -> None:
        """Return the memory to the system, as the next map may come much later. Views returned before are all 0 then.

        In pieces, as no other thread runs Python while the system takes pages back.
        """
        if self._memory is not None and hasattr(self._memory, "madvise"):
            for start in range(0, len(self._memory), _RELEASED_BYTES):
                size_bytes = min(_RELEASED_BYTES, len(self._memory) - start)
                self._memory.madvise(mmap.MADV_DONTNEED, start, size_bytes)
        self._memory, self._words = None, memoryview(b"").cast("Q")


class OffsetMap:
    """Map from keys to their newest records. `keys` does the work and has the counts; the rest is the memory that it uses.

    Bitmaps are 64-bit words, the lowest bit first, and one word more than their bits need.
    """

    def __init__(
        self,
        first_offset: int,
        end_offset: int,
        *,
        slots_max: int,
        entries_max: int,
        secret: bytes,
        memory: TableMemory | None = None,
        version_source: VersionSource | None = None,
    ) -> None:
        """
        Args:
            first_offset: Start of the dirty part (inclusive); `end_offset` is its end (exclusive). Records below the first
                offset are not put into the map.
            slots_max: Number of slots that the memory allows. A short dirty part uses fewer.
            entries_max: Largest number of keys; two slots are used for each if `slots_max` allows it.
            secret: SECRET_BYTES random bytes, unknown to the clients that wrote the keys.
            memory: Memory for the table; new memory if not given.
            version_source: Let the highest version of a key win instead of the newest. A slot then takes twice the memory, so
                there are half as many slots and keys.
        """
        if version_source is not None:
            slots_max, entries_max = slots_max // 2, max(1, entries_max // 2)
        self.entries_max = entries_max
        self.secret = secret
        # Probes are short in a half-empty table; more slots would only cost cache misses.
        self.slots = max(1, min(slots_max, 2 * entries_max, 2 * (end_offset - first_offset)))
        table_bytes = BYTES_PER_SLOT * (self.slots + _SLACK_SLOTS)
        memory = memory or TableMemory()
        self.versions: memoryview | None = None
        if version_source is None:
            self.table = memory.zeros(table_bytes)
        else:
            both = memory.zeros(2 * table_bytes).cast("B")
            self.table, self.versions = both[:table_bytes].cast("Q"), both[table_bytes:].cast("q")
        self.dead = self.tombstones = array("Q", bytes(8))
        self.keys = KeyMap(
            self.table,
            self.slots,
            entries_max,
            first_offset,
            secret,
            _RECORDS_MAX,
            self.versions,
            version_source and version_source.header,
        )
        self.grow(0)

    @property
    def latest_offset(self) -> int:
        """The last offset that the map covers; one below the first if it covers none."""
        return self.keys.latest_offset

    @property
    def utilization(self) -> float:
        return self.keys.entries / self.entries_max

    def grow(self, count: int) -> None:
        """Enlarge the bitmaps for `count` more records."""
        bits = max(_BITS_MIN, 2 * (self.keys.records + count))
        self.dead = _enlarged(self.dead, bits)
        self.tombstones = _enlarged(self.tombstones, bits)
        self.keys.set_bits(self.dead, self.tombstones)

    def end_retention(self, keys: Iterable[bytes]) -> None:
        """Let the pass remove the newest records of these keys that are tombstones, whatever their delete horizons.

        Call it once the map is complete. A key whose newest record has a value keeps that.

        Their dead bits are set, so the rules of the filter need not know these keys. It is safe in the same pass that removes the
        older values: groups are swapped in the order of offsets, each on disk before the next, and the tombstone is in the last
        group with its key.
        """
        for key in keys:
            ordinal = self.keys.newest(key)
            word, bit = ordinal >> 6, 1 << (ordinal & 63)
            if ordinal >= 0 and self.tombstones[word] & bit:
                self.dead[word] |= bit


def _zeros(size_bytes: int) -> mmap.mmap:
    """Map zeroed memory, which costs nothing before it is touched."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux" and size_bytes >= _HUGE_FROM_BYTES:
        with suppress(OSError):  # not every kernel has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _enlarged(words: array[int], bits: int) -> array[int]:
    return words + array("Q", bytes(8 * (bits // 64 + 2 - len(words))))
