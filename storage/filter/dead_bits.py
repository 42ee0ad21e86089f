"""Which records are superseded, by number: what the second half of a clean pass goes by, whoever found it out.

    numbers      0 1 2 3 4 5 6 …     records of the numbered batches, in order (`kernel.RecordFilter` says which)
    dead         1 0 0 1 1 0 0       a newer record of its key is there, or it has no key
    tombstones   0 0 1 0 1 0 0       it has no value

The server's map numbers the dirty part of a log; records before it are looked up in the map's table by their key. A job
over a whole log numbers all records, and needs no table.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple


class DeadBits(NamedTuple):
    """See the module. Bitmaps are 64-bit words, the lowest bit first, and one word more than their bits need."""

    dead: array[int]
    tombstones: array[int]
    numbered: int
    """Numbers given."""
    keyless: int
    """Of the dead ones, those without a key."""
    start: int
    """First offset whose records have numbers, and `latest` the last one; those above `latest` all stay."""
    latest: int
    table: memoryview
    """`kernel.KeyMap`'s, of the keys that supersede records below `start`; it has `slots` and was made with `secret`."""
    slots: int
    secret: bytes
    ordinal_ends: Mapping[int, int]
    """Segment base offset -> number after the segment's last record that has one: the second half numbers records for
    itself, and these tell it that both halves mean the same records."""

    @classmethod
    def of_all(
        cls,
        dead: array[int],
        tombstones: array[int],
        *,
        numbered: int,
        keyless: int,
        latest: int,
        ordinal_ends: Mapping[int, int],
    ) -> DeadBits:
        """For batches of which none begins above `latest`: every record has a number."""
        return cls(dead, tombstones, numbered, keyless, 0, latest, _NO_KEYS, 1, _NO_SECRET, ordinal_ends)


_NO_KEYS = memoryview(bytes(32)).cast("Q")
_NO_SECRET = bytes(16)
