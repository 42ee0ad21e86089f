"""Where the newest batches of a segment lie, without a look at index or file.

Almost every fetch is for what was appended last: consumers that keep up ask for the log's end. For them a segment
remembers its newest batches one by one, in two arrays of bounded size, instead of reading headers from the file.

    last offsets   17    18    25         batches end with these offsets
    positions    4100  4203  4511         and begin at these bytes
    first offset   15                     of the oldest remembered one: below it, ask the offset index
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

NEWEST_BATCHES_MAX = 256
"""Remembered at most; half of them are forgotten when there are more."""

_NOTHING = 2**63 - 1


class NewestBatches:
    """See the module's text. Owned by the thread that appends."""

    __slots__ = ("_last_offsets", "_positions", "first_offset")

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._positions = array("q")
        self.first_offset = _NOTHING
        """Offsets from here on can be looked up; those below lie in older batches."""

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
        """Forget all."""
        del self._last_offsets[:], self._positions[:]
        self.first_offset = _NOTHING

    @property
    def last_offset(self) -> int | None:
        """The last offset of the newest batch; None if nothing is remembered."""
        return self._last_offsets[-1] if self._last_offsets else None

    def position_of(self, offset: int) -> int | None:
        """Where the first batch begins whose last offset is at or above `offset`, which is not below `first_offset`.

        None if there is none.
        """
        slot = bisect_left(self._last_offsets, offset)
        return self._positions[slot] if slot < len(self._positions) else None

    def end_between(self, position: int, limit: int, size_bytes: int) -> int | None:
        """The largest batch end at or below byte `limit`, but at least that of the batch at `position`.

        `size_bytes`, the end of the last batch, lies above `limit`. None if the answer lies among older batches.
        """
        positions = self._positions
        if not positions or limit < positions[0]:
            return None
        end = positions[bisect_right(positions, limit) - 1]
        if end > position:
            return end
        slot = bisect_right(positions, position)
        return positions[slot] if slot < len(positions) else size_bytes
