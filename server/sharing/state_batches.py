"""What is written of the records of a share partition, put together from one update after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple


class StateBatch(NamedTuple):
    """Records, both ends inclusive, that are in one state; an `in_flight.State`, but never acquired."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Of two words about one record the higher is the newer."""
        return self.delivery_count, self.delivery_state


def merged(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """One word about each record from `start_offset` on, in order, and in as few batches as can be; -1 is before all of them.

    Apache Kafka may leave two batches where one would do. Takes n log n of what there are.
    """
    waiting = sorted(batch for batch in batches if batch.first_offset <= batch.last_offset)
    found: list[StateBatch] = []
    open_: list[tuple[tuple[int, int], StateBatch]] = []  # the highest first
    offset, at = start_offset, 0
    while at < len(waiting) or open_:
        if not open_:
            batch = waiting[at]
            offset = max(offset, batch.first_offset)
            if at + 1 == len(waiting) or batch.last_offset < waiting[at + 1].first_offset:
                # Nothing else is said of its records, as of most: a third of the time.
                if offset <= batch.last_offset:
                    add(found, batch._replace(first_offset=offset) if offset > batch.first_offset else batch)
                    offset = batch.last_offset + 1
                at += 1
                continue
        while at < len(waiting) and waiting[at].first_offset <= offset:
            count, state = waiting[at].rank
            heappush(open_, ((-count, -state), waiting[at]))
            at += 1
        while open_ and open_[0][1].last_offset < offset:
            heappop(open_)
        if not open_:
            continue
        highest = open_[0][1]
        until = highest.last_offset if at == len(waiting) else min(highest.last_offset, waiting[at].first_offset - 1)
        add(found, StateBatch(offset, until, highest.delivery_state, highest.delivery_count))
        offset = until + 1
    return found


def with_more(batches: Sequence[StateBatch], more: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """`merged` of both, where `batches` are in order and apart: only those that `more` says something of are looked at, so what thousands
    say costs little to whoever adds a few words."""
    begin = bisect_left(batches, start_offset, key=_last)
    left = list(batches[begin:])
    if left and left[0].first_offset < start_offset:
        left[0] = left[0]._replace(first_offset=start_offset)
    if more:
        low = bisect_left(left, min(more).first_offset, key=_last)
        high = bisect_right(left, max(map(_last, more)), low, key=_first)
        # Neighbours may become one with what is said.
        low, high = max(low - 1, 0), high + 1
        left[low:high] = merged((*left[low:high], *more), start_offset)
    return left


def are_apart(batches: Sequence[StateBatch]) -> bool:
    """Whether they are in order, none of them empty or overlapping another one."""
    return all(one.first_offset <= one.last_offset for one in batches) and all(
        one.last_offset < following.first_offset for one, following in pairwise(batches)
    )


_first, _last = attrgetter("first_offset"), attrgetter("last_offset")


def add(batches: list[StateBatch], batch: StateBatch) -> None:
    """Neighbours that fare alike are one."""
    if batches and batches[-1].last_offset + 1 == batch.first_offset and batches[-1].rank == batch.rank:
        batch = batch._replace(first_offset=batches.pop().first_offset)
    batches.append(batch)
