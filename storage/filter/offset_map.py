"""The offset map of one clean pass: which records of the dirty part are the newest of their key.

Filled by `map_builder` in offset order, then asked by `clean_rules`. Here is its memory, `kernel.KeyMap` does the work:

    table       key -> ordinal of its newest record so far
    dead        one bit a record: 1 = a newer record of its key was seen, or it has no key
    tombstones  one bit a record: 1 = it has no value

Keys stand in the table as 96 bits of a hash under a secret that is drawn for the pass: an entry costs the same whatever
the keys are, and nobody can make two keys that are taken for one.
"""

from __future__ import annotations

import mmap
import sys
from array import array
from contextlib import suppress

from ..kernel import KeyMap, clear

BYTES_PER_SLOT = 16
"""What an entry costs of `log.cleaner.dedupe.buffer.size`."""

SECRET_BYTES = 16

# Probing does not wrap around: the last entries spill over into slots behind the others. Untouched, they cost nothing.
_SLACK_SLOTS = 1 << 16
_RECORDS_MAX = 2**32 - 2
"""An ordinal takes 32 bits of a slot, in which 0 stands for a free one."""

_BITS_MIN = 1 << 16

_HUGE_FROM_BYTES = 4 << 20
"""Tables from this size on ask for huge pages: 64 MB come and go in 8 ms instead of 45, and every probe is a little
faster."""

_RELEASED_BYTES = 2 << 20
"""Given back in one go, in a quarter of a millisecond."""


def entries_max(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map of that size takes in one pass.

    Raises:
        ValueError: Fewer than two: no pass would get anywhere.
    """
    entries = int(buffer_bytes // BYTES_PER_SLOT * load_factor)
    if entries <= 1:
        raise ValueError(
            f"offset map too small: {buffer_bytes} bytes with load factor {load_factor} cannot hold two keys"
        )
    return entries


class TableMemory:
    """What the tables of one cleaner thread are made of: one map at a time.

    Kept from pass to pass, because pages that are new to the process can cost as much time as the map itself.
    """

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._words = memoryview(b"").cast("Q")

    @property
    def size_bytes(self) -> int:
        """What is kept."""
        return self._words.nbytes

    def zeros(self, size_bytes: int) -> memoryview:
        """So much memory in 64-bit words, all 0. What was given before is no longer to be used."""
        words = size_bytes // 8
        if words <= len(self._words):
            clear(self._words[:words])
        else:
            self.release()
            self._memory = _zeros(size_bytes)
            self._words = memoryview(self._memory).cast("Q")
        return self._words[:words]

    def release(self) -> None:
        """Give it back: the next map may be far away. What was given before is all 0 then.

        Piece by piece, as no other thread runs Python while the system takes pages back.
        """
        if self._memory is not None and hasattr(self._memory, "madvise"):
            for start in range(0, len(self._memory), _RELEASED_BYTES):
                size_bytes = min(_RELEASED_BYTES, len(self._memory) - start)
                self._memory.madvise(mmap.MADV_DONTNEED, start, size_bytes)
        self._memory, self._words = None, memoryview(b"").cast("Q")


class OffsetMap:
    """See the module. `keys` does the work and has the counts; the other attributes are the memory that it works on.

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
    ) -> None:
        """
        Args:
            first_offset: Where the dirty part begins (inclusive), and `end_offset` where it ends (exclusive); records
                below the first are not put.
            slots_max: What the memory allows. Fewer are used for a short dirty part.
            entries_max: Keys at most; a slot for each where `slots_max` allows it, better two.
            secret: SECRET_BYTES that nobody can know who wrote the keys.
            memory: For the table; its own if not given.
        """
        self.entries_max = entries_max
        self.secret = secret
        # Probes are short in a table that is half empty; more room than that would only cost cache misses.
        self.slots = max(1, min(slots_max, 2 * entries_max, 2 * (end_offset - first_offset)))
        self.table = (memory or TableMemory()).zeros(BYTES_PER_SLOT * (self.slots + _SLACK_SLOTS))
        self.dead = self.tombstones = array("Q", bytes(8))
        self.keys = KeyMap(self.table, self.slots, entries_max, first_offset, secret, _RECORDS_MAX)
        self.grow(0)

    @property
    def latest_offset(self) -> int:
        """The last offset whose records the map knows; one below the first if there is none."""
        return self.keys.latest_offset

    @property
    def utilization(self) -> float:
        return self.keys.entries / self.entries_max

    def grow(self, count: int) -> None:
        """Have bits for `count` more records."""
        bits = max(_BITS_MIN, 2 * (self.keys.records + count))
        self.dead = _enlarged(self.dead, bits)
        self.tombstones = _enlarged(self.tombstones, bits)
        self.keys.set_bits(self.dead, self.tombstones)


def _zeros(size_bytes: int) -> mmap.mmap:
    """Memory that costs nothing before it is touched."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if sys.platform == "linux" and size_bytes >= _HUGE_FROM_BYTES:
        with suppress(OSError):  # not every kernel has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _enlarged(words: array[int], bits: int) -> array[int]:
    return words + array("Q", bytes(8 * (bits // 64 + 2 - len(words))))
