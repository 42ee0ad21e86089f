"""Positions of the newest batches of a segment, without reading the index or the file.

Almost every fetch is for the newest records: consumers that keep up read at the log's end. So a segment remembers its newest
batches one by one, in two arrays of bounded size, instead of reading headers from the file.

    last offsets   17    18    25         batches end with these offsets
    positions    4100  4203  4511         and begin at these bytes
    first offset   15                     of the oldest remembered batch: below it, use the offset index
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

NEWEST_BATCHES_MAX = 256
"""Largest number of remembered batches. When there are more, the older half is forgotten."""

_NOTHING = 2**63 - 1


class NewestBatches:
    """Positions of the newest batches. Owned by the thread that appends."""

    __slots__ = ("_last_offsets", "_positions", "first_offset")

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._positions = array("q")
        self.first_offset = _NOTHING
        """Lowest offset that can be looked up; lower ones are in older batches."""

    def note(self, base_offset: int, last_offset: int, position: int) -> None:
        """Remember a batch that was appended at `position`."""
        positions, last_offsets = self._positions, self._last_offsets
        if not positions:
            self.first_offset = base_offset
        elif len(positions) >= NEWEST_BATCHES_MAX:
            half = NEWEST_BATCHES_MAX // 2
            self.first_offset = last_offsets[half - 1] + 1
            del last_offsets[:half], positions[:half]
        last_offsets.append(last_offset)
        positions.append(position)

    def clear(self) -> None:
        """Forget all batches."""
        del self._last_offsets[:], self._positions[:]
        self.first_offset = _NOTHING

    @property
    def last_offset(self) -> int | None:
        """The last offset of the newest batch; None if nothing is remembered."""
        return self._last_offsets[-1] if self._last_offsets else None

    def position_of(self, offset: int) -> int | None:
        """Find the position of the first batch whose last offset is at or above `offset`; None if no batch is.

        `offset` must not be below `first_offset`.
        """
        slot = bisect_left(self._last_offsets, offset)
        return self._positions[slot] if slot < len(self._positions) else None

    def end_between(self, position: int, limit: int, size_bytes: int) -> int | None:
        """Find the largest batch end at or below byte `limit`, but at least that of the batch at `position`.

        `size_bytes`, the end of the last batch, is above `limit`. None if the result is among older batches.
        """
        positions = self._positions
        if not positions or limit < positions[0]:
            return None
        end = positions[bisect_right(positions, limit) - 1]
        if end > position:
            return end
        slot = bisect_right(positions, position)
        return positions[slot] if slot < len(positions) else size_bytes
