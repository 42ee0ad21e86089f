"""Bitmaps of the superseded records, by number: the input of the second half of a clean pass.

    numbers      0 1 2 3 4 5 6 …     records of the numbered batches, in order (`kernel.RecordFilter` says which)
    dead         1 0 0 1 1 0 0       a newer record of its key exists, or it has no key
    tombstones   0 0 1 0 1 0 0       it has no value
    held         0 0 0 0 1 0 0       with versions: a tombstone here stays, as it may supersede a later record in this pass

The server's map numbers the dirty part of a log; records before it are looked up in the map's table by their key. A job
over a whole log numbers all records, and needs no table.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple


class DeadBits(NamedTuple):
    """Bitmaps of superseded records. They are 64-bit words, the lowest bit first, and one word more than their bits need."""

    dead: array[int]
    tombstones: array[int]
    numbered: int
    """Count of numbered records."""
    keyless: int
    """Count of dead records that have no key."""
    start: int
    """First offset whose records have numbers; `latest` is the last one. Records above `latest` all stay."""
    latest: int
    table: memoryview
    """Table of `kernel.KeyMap`: the keys that supersede records below `start`. It has `slots`, and uses `secret`."""
    slots: int
    secret: bytes
    ordinal_ends: Mapping[int, int]
    """Segment base offset -> number after the segment's last numbered record.

    The second half counts the records again, and compares: both halves must give the same numbers to the same records.
    """
    versions: memoryview | None = None
    """Version and offset of each winner in the table, at the position of its slot; None if the newest records win."""
    held: array[int] | None = None
    """The third bitmap; None if no tombstone is held."""

    @classmethod
    def from_arrays(
        cls,
        dead: array[int],
        tombstones: array[int],
        *,
        numbered: int,
        keyless: int,
        latest: int,
        ordinal_ends: Mapping[int, int],
        held: array[int] | None = None,
    ) -> DeadBits:
        """Return the bits for batches of which none begins above `latest`, so that every record has a number."""
        return cls(dead, tombstones, numbered, keyless, 0, latest, _NO_KEYS, 1, _NO_SECRET, ordinal_ends, None, held)


_NO_KEYS = memoryview(bytes(32)).cast("Q")
_NO_SECRET = bytes(16)
