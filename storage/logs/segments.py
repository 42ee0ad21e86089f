"""The segments of one log, in order.

Only `Log` changes the list; retention and the cleaner read it. Every change replaces the tuple, so a worker thread that
iterates sees one consistent list while the owner rolls or swaps.

    base offsets   0          310        550
                   [segment]  [segment]  [active segment →
    floor(400) = 310    higher(310) = 550    between(400, 551) = 310, 550
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from ..segment.segment import LogSegment

_base_offset = attrgetter("base_offset")


class SegmentList:
    """Segments by base offset; never two with the same one."""

    __slots__ = ("_segments", "changes")

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments: tuple[LogSegment, ...] = tuple(sorted(segments, key=_base_offset))
        self.changes = 0
        """Number of changes of the list so far."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __contains__(self, segment: LogSegment) -> bool:
        return any(other is segment for other in self._segments)

    @property
    def first(self) -> LogSegment:
        """The oldest segment. IndexError when the list is empty; that of an open log never is."""
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        """The segment that grows: the last one."""
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def floor(self, offset: int) -> LogSegment | None:
        """The segment with the largest base offset <= `offset`; None below the first segment."""
        at = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[at - 1] if at else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """The segment with the smallest base offset > `base_offset`; None at or above the active one's."""
        segments = self._segments
        at = bisect_right(segments, base_offset, key=_base_offset)
        return segments[at] if at < len(segments) else None

    def between(self, from_offset: int, upto_offset: int) -> tuple[LogSegment, ...]:
        """Segments that may hold offsets from `from_offset` up to, not including, `upto_offset`, in order.

        Starts with the segment that contains `from_offset`, or with the first one if `from_offset` is below it.
        """
        start = max(0, bisect_right(self._segments, from_offset, key=_base_offset) - 1)
        return self._segments[start : bisect_left(self._segments, upto_offset, key=_base_offset)]

    def non_active(self) -> tuple[LogSegment, ...]:
        """All segments but the last, in order: those that no append changes any more."""
        return self._segments[:-1]

    def add(self, segment: LogSegment) -> None:
        """Insert `segment` by its base offset, replacing one with the same base offset."""
        self.exchange((segment,), ())

    def remove(self, segments: Iterable[LogSegment]) -> None:
        """Remove these segments; segments that are not in the list are ignored."""
        self.exchange((), segments)

    def exchange(self, new: Iterable[LogSegment], old: Iterable[LogSegment]) -> None:
        """Replace `old` by `new`, in one step for every reader."""
        # A roll, which is part of an append, calls this with nothing to remove, and a log may have 20 000 segments.
        leaving = {id(segment) for segment in old}
        segments = self._segments
        kept = [segment for segment in segments if id(segment) not in leaving] if leaving else list(segments)
        for segment in new:
            at = bisect_left(kept, segment.base_offset, key=_base_offset)
            end = at + (at < len(kept) and kept[at].base_offset == segment.base_offset)
            kept[at:end] = [segment]
        self._segments = tuple(kept)
        self.changes += 1
