"""Written states of a share partition's records, combined from successive updates.

Members notice how records are divided into batches: a leader that loads the state has its batches in flight, and each is
delivered as one. So equal neighbours are always one batch, as in Apache Kafka 4.4.0 (its `PersisterStateBatchCombiner`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
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


_LOOKS_A_PIECE = 200


def merged(batches: Iterable[ShareStateBatch], start_offset: int) -> list[ShareStateBatch]:
    """Return the fewest batches, in order, that have the newest state of each record from `start_offset` on; -1 is before all
    records.

    The time is n log n.
    """
    return to_the_end(merging(batches, start_offset))


def merging(batches: Iterable[ShareStateBatch], start_offset: int) -> Steps[list[ShareStateBatch]]:
    """`merged`, in pieces."""
    waiting = sorted(one for one in batches if start_offset <= one.last_offset >= one.first_offset)
    found: list[ShareStateBatch] = []
    open_: list[tuple[tuple[int, int], ShareStateBatch]] = []  # the highest first
    offset, at, looks = start_offset, 0, 0
    while at < len(waiting) or open_:
        looks += 1
        if not looks % _LOOKS_A_PIECE:
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
    batches: Sequence[ShareStateBatch], more: Sequence[ShareStateBatch], start_offset: int
) -> list[ShareStateBatch]:
    """Return `merged` of both, where `batches` are themselves merged. Only batches that `more` touches are handled, so it is
    fast to add a few to thousands."""
    left = list(batches[bisect_left(batches, start_offset, key=_last) :])
    if left:
        left[0] = _from(left[0], start_offset)
    more = [one for one in more if start_offset <= one.last_offset >= one.first_offset]
    if not more:
        return left
    # Neighbours may merge with the new batches.
    low = max(bisect_left(left, min(more).first_offset, key=_last) - 1, 0)
    high = bisect_right(left, max(map(_last, more)), low, key=_first) + 1
    return [*left[:low], *merged((*left[low:high], *more), start_offset), *left[high:]]


def _from(batch: ShareStateBatch, start_offset: int) -> ShareStateBatch:
    """Return the part of a batch from `start_offset` on."""
    return batch._replace(first_offset=start_offset) if batch.first_offset < start_offset else batch


def are_merged(batches: Sequence[ShareStateBatch]) -> bool:
    """Whether the batches are in order, not empty, do not overlap, and are not equal neighbours."""
    return all(one.first_offset <= one.last_offset for one in batches) and all(
        one.last_offset + (one.rank == following.rank) < following.first_offset for one, following in pairwise(batches)
    )


_first, _last = attrgetter("first_offset"), attrgetter("last_offset")


def add(batches: list[ShareStateBatch], batch: ShareStateBatch) -> None:
    """Append a batch; merge it with the last one if they are equal neighbours."""
    if batches and batches[-1].last_offset + 1 == batch.first_offset and batches[-1].rank == batch.rank:
        batch = batch._replace(first_offset=batches.pop().first_offset)
    batches.append(batch)
