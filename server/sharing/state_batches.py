"""Written states of a share partition's records, combined from successive updates.

Members notice how records are divided into batches: a leader that loads the state has its batches in flight, and each is
delivered as one. So equal neighbours are merged, or not, as in Apache Kafka 4.3.1 (its `PersisterStateBatchCombiner`). There
the records after a batch are combined only when that batch is finished. So a batch that becomes equal to the one before it
stays separate until the next update (a seam).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ..coordination.jobs import Steps, to_the_end


class ShareStateBatch(NamedTuple):
    """Records in one state, both ends inclusive. The state is an `in_flight.State`, but never ACQUIRED."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Order of two states of one record: the higher is the newer."""
        return self.delivery_count, self.delivery_state


_LOOKS_PER_BATCH = 8
"""Limit of comparisons per batch. More are only needed if a write has many states for one record, which no leader writes."""
_LOOKS_A_PIECE = 200


class Combined(NamedTuple):
    """
    Attributes:
        batches: Batches in order, with one state for each record.
        seams: First offsets of batches that could be merged with the batch before them.
    """

    batches: list[ShareStateBatch]
    seams: tuple[int, ...]


def merged(batches: Iterable[ShareStateBatch], start_offset: int) -> list[ShareStateBatch]:
    """Return batches in order with one state for each record from `start_offset` on; -1 is before all records.

    The time is n log n. If records have many states, the result has the smallest possible number of batches.
    """
    return to_the_end(merging(batches, start_offset))


def merging(batches: Iterable[ShareStateBatch], start_offset: int) -> Steps[list[ShareStateBatch]]:
    """`merged`, in pieces."""
    known = [_from(one, start_offset) for one in batches if start_offset <= one.last_offset >= one.first_offset]
    found = yield from _combined(known)
    return (yield from _fewest(known, start_offset)) if found is None else found


def _combined(batches: Sequence[ShareStateBatch]) -> Steps[list[ShareStateBatch] | None]:
    """Combine from the left: a batch and the next one, until they do not touch. Return None if that takes long."""
    waiting = [(one.first_offset, one.last_offset, one.rank) for one in batches]
    if not waiting:
        return []
    heapify(waiting)
    found: list[ShareStateBatch] = []
    looks = _LOOKS_PER_BATCH * len(waiting)
    first, last, rank = heappop(waiting)
    while waiting and looks:
        looks -= 1
        if not looks % _LOOKS_A_PIECE:
            yield
        other_first, other_last, other_rank = waiting[0]
        if other_first > last + (rank == other_rank):
            found.append(ShareStateBatch(first, last, rank[1], rank[0]))
            first, last, rank = heappop(waiting)
            continue
        heappop(waiting)
        if rank == other_rank:
            last = max(last, other_last)
        elif other_rank < rank:
            if other_last > last:
                heappush(waiting, (last + 1, other_last, other_rank))
        else:
            heappush(waiting, (other_first, other_last, other_rank))
            if other_last < last:
                heappush(waiting, (other_last + 1, last, rank))
            if first < other_first:
                last = other_first - 1
            else:
                first, last, rank = heappop(waiting)
    if waiting:
        return None
    found.append(ShareStateBatch(first, last, rank[1], rank[0]))
    return found


def _fewest(batches: Iterable[ShareStateBatch], start_offset: int) -> Steps[list[ShareStateBatch]]:
    waiting = sorted(batches)
    found: list[ShareStateBatch] = []
    open_: list[tuple[tuple[int, int], ShareStateBatch]] = []  # the highest first
    offset, at = start_offset, 0
    while at < len(waiting) or open_:
        if not len(found) % _LOOKS_A_PIECE:
            yield
        if not open_:
            batch = waiting[at]
            offset = max(offset, batch.first_offset)
            if at + 1 == len(waiting) or batch.last_offset < waiting[at + 1].first_offset:
                # Most batches overlap no other: this shortcut takes a third of the time.
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
        add(found, ShareStateBatch(offset, until, highest.delivery_state, highest.delivery_count))
        offset = until + 1
    return found


def with_more(
    batches: Sequence[ShareStateBatch], more: Sequence[ShareStateBatch], start_offset: int, seams: Sequence[int] = ()
) -> Combined:
    """Return `merged` of both, where `batches` are in order and do not overlap. Only batches that `more` touches are handled,
    so it is fast to add a few to thousands.

    Args:
        seams: Seams of `batches`.
    """
    left = list(batches[bisect_left(batches, start_offset, key=_last) :])
    if left:
        left[0] = _from(left[0], start_offset)
    more = [one for one in more if start_offset <= one.last_offset >= one.first_offset]
    if not more:
        return Combined(_without_seams(left, seams), ())
    low = bisect_left(left, min(more).first_offset, key=_last)
    high = bisect_right(left, max(map(_last, more)), low, key=_first)
    # Neighbours may merge with the new batches.
    low, high = max(low - 1, 0), min(high + 1, len(left))
    known = set(seams)
    while low and left[low].first_offset in known:
        low -= 1
    while high < len(left) and left[high].first_offset in known:
        high += 1
    here = merged((*left[low:high], *more), start_offset)
    both = [*_without_seams(left[:low], seams), *here, *_without_seams(left[high:], seams)]
    return Combined(both, seams_of(here))


def _without_seams(batches: list[ShareStateBatch], seams: Sequence[int]) -> list[ShareStateBatch]:
    for seam in seams:
        at = bisect_left(batches, seam, key=_first)
        if 0 < at < len(batches) and batches[at].first_offset == seam:
            batches[at - 1 : at + 1] = [batches[at]._replace(first_offset=batches[at - 1].first_offset)]
    return batches


def seams_of(batches: Sequence[ShareStateBatch]) -> tuple[int, ...]:
    """Return the seams between these batches, see `Combined`."""
    return tuple(
        behind.first_offset
        for before, behind in pairwise(batches)
        if before.last_offset + 1 == behind.first_offset and before.rank == behind.rank
    )


def _from(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch:
    """Return the part of a batch from `start_offset` on."""
    return batch._replace(first_offset=start_offset) if batch.first_offset < start_offset else batch


def are_apart(batches: Sequence[ShareStateBatch]) -> bool:
    """Whether the batches are in order, not empty, and do not overlap."""
    return all(one.first_offset <= one.last_offset for one in batches) and all(
        one.last_offset < following.first_offset for one, following in pairwise(batches)
    )


_first, _last = attrgetter("first_offset"), attrgetter("last_offset")


def add(batches: list[ShareStateBatch], batch: ShareStateBatch) -> None:
    """Append a batch; merge it with the last one if they are equal neighbours."""
    if batches and batches[-1].last_offset + 1 == batch.first_offset and batches[-1].rank == batch.rank:
        batch = batch._replace(first_offset=batches.pop().first_offset)
    batches.append(batch)
