"""Acquisition of fetched records by a member, and its limits.

In KIP-932 a member gets whole batches, and so possibly more than it requested; in KIP-1206 it can set a strict limit
(`is_record_limit`). Records that were delivered often come in small numbers, and alone at their last delivery. So a record that
no member can process does not affect others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from .in_flight import Batch, State, StateChange, StateRun
from .share_partition import RUNS_AT_ONCE, SharePartition, Update

_FEW_DELIVERIES = 2
"""Delivery limit up to which the last delivery is not limited to one record."""


class OffsetRange(NamedTuple):
    """Range of offsets, both ends inclusive."""

    first: int
    last: int


class Acquired(NamedTuple):
    """Acquired records in a member's answer, both ends inclusive."""

    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class AcquireRequest:
    """Request of a member for records.

    Attributes:
        max_records: Number of records after which no further batch is added.
        batch_size: Approximate size of the batches in which records are acquired; they end where the log's batches do.
        is_record_limit: Whether `max_records` is a strict limit, wherever a batch ends.
    """

    member_id: str
    max_records: int
    batch_size: int
    is_record_limit: bool = False


def acquire(
    partition: SharePartition,
    request: AcquireRequest,
    fetch_offset: int,
    fetched: Sequence[OffsetRange],
    elapsed_ms: int,
    aborted: Sequence[OffsetRange] = (),
    carry_out: Callable[[Update], object] | None = None,
) -> list[Acquired]:
    """Acquire for a member the records that it may have, of those fetched for it.

    Args:
        fetch_offset: Offset at which the fetch began, from `next_fetch_offset`.
        fetched: Batches of the log, in order.
        aborted: Batches, of these, that no member may see: they are archived at once.
        carry_out: Function that writes an update and applies it; by default it is only applied. Its exceptions are passed on,
            before any record is acquired.

    Returns:
        The acquired records, in order.
    """
    if not fetched or request.max_records <= 0 or fetched[-1].last < partition.start_offset:
        return []
    _archive_missing(partition, fetch_offset, fetched[0].first, carry_out or partition.apply)
    last, limit = _room(partition, request, fetch_offset, fetched[-1].last)
    if limit <= 0:
        return []
    until_ms = elapsed_ms + partition.limits.lock_ms
    acquired = _Acquiring(partition, request, fetched, last, until_ms).run(limit)
    return _without(partition, acquired, aborted) if aborted else acquired


def _archive_missing(
    partition: SharePartition, fetch_offset: int, first: int, carry_out: Callable[[Update], object]
) -> None:
    """Archive the available records from `fetch_offset` on, since the log no longer has records before `first`.

    These may be all available records of a full window. So the change is written, and the start offset advances over them.
    Apache Kafka does neither: there the share partition hangs, also after a restart.
    """
    gap_start = partition.gap_start
    if gap_start is not None and fetch_offset <= gap_start < first:
        partition.pass_gap(first)
    fates = (
        (run, StateChange(max(run.first, fetch_offset), min(run.last, first - 1), State.ARCHIVED))
        for batch in partition.in_flight.between(fetch_offset, first - 1)
        for run in batch.between(fetch_offset, first - 1)
        if run.state is State.AVAILABLE
    )
    update = partition.update(islice(fates, RUNS_AT_ONCE))
    if update.changes:
        carry_out(update)


def _room(partition: SharePartition, request: AcquireRequest, fetch_offset: int, last: int) -> tuple[int, int]:
    """Return the last offset that the member may get, and the number of records. If no more records may be in flight, only
    those in flight count."""
    limit = min(request.max_records, partition.room())
    if limit > 0:
        return last, limit
    again = partition.end_offset - fetch_offset + 1
    return min(last, partition.end_offset), min(request.max_records, again)


class _Acquiring:
    """One acquisition."""

    def __init__(
        self,
        partition: SharePartition,
        request: AcquireRequest,
        fetched: Sequence[OffsetRange],
        last: int,
        until_ms: int,
    ) -> None:
        self._partition = partition
        self._in_flight = partition.in_flight
        self._request = request
        self._fetched = fetched
        self._last = last
        self._until_ms = until_ms
        self._acquired: list[Acquired] = []
        self._count = 0
        deliveries = partition.limits.deliveries
        self._careful_from = max(_FEW_DELIVERIES, -(-deliveries // 2))
        """Delivery count from which records come in small numbers."""
        self._last_delivery = deliveries - 1 if deliveries > _FEW_DELIVERIES else None
        """Delivery count at which records come one by one; None: never."""

    def run(self, limit: int) -> list[Acquired]:
        first = self._fetched[0].first
        floor = self._in_flight.floor(first)
        if floor is None:
            begin = max(first, self._partition.start_offset)
        else:
            begin = floor.first if floor.last >= first else first
        if begin > self._last:
            return []  # No more records may be in flight, and the log has none of those that are.
        known = self._in_flight.beginning(min(first, begin), self._last)
        at = begin
        for batch in known:
            if self._count >= limit:
                break
            if self._partition.gap_start is not None:
                if at < batch.first:
                    self._acquire_new(at, batch.first - 1, limit - self._count)
                at = batch.last + 1
                if self._count >= limit:
                    break
            is_careful = any(run.delivery_count >= self._careful_from for run in self._available(batch))
            if is_careful and self._count:
                return self._finished()
            taken = self._acquire_again(batch, limit - self._count)
            if is_careful and taken:
                return self._finished()
        if self._count < limit and (not known or known[-1].last < self._last):
            self._acquire_new(known[-1].last + 1 if known else begin, self._last, limit - self._count)
        return self._finished()

    def _finished(self) -> list[Acquired]:
        if self._acquired:
            self._partition.pass_gap(self._acquired[-1].last_offset + 1)
        return self._acquired

    def _available(self, batch: Batch) -> Iterator[StateRun]:
        """Iterate over the runs of a batch that are available and were fetched."""
        first = self._fetched[0].first
        for run in batch.between(first, self._last):
            if run.state is State.AVAILABLE:
                yield run._replace(first=max(run.first, first), last=min(run.last, self._last))

    def _acquire_again(self, batch: Batch, limit: int) -> int:
        """Acquire the available records of a batch, and return their number."""
        changes: list[StateChange] = []
        acquired: list[Acquired] = []
        taken, few, is_full = 0, 0, False
        for run in self._available(batch):
            is_last_delivery = run.delivery_count == self._last_delivery
            if is_full or (is_last_delivery and taken):
                break
            if run.delivery_count >= self._careful_from and not few:
                few = max(1, batch.size >> (run.delivery_count - self._careful_from + 1))
            count = 1 if is_last_delivery else run.size
            is_full = is_last_delivery
            if self._request.is_record_limit:
                count = min(count, limit - taken)
                is_full |= taken + count == limit
            if taken < few:
                count = min(count, few - taken)
                is_full |= taken + count == few
            taken += count
            change = StateChange(
                run.first, run.first + count - 1, State.ACQUIRED, self._request.member_id, self._until_ms, delivered=1
            )
            changes.append(change)
            before = acquired[-1] if acquired else None
            if before and before.last_offset + 1 == run.first and before.delivery_count == run.delivery_count + 1:
                acquired[-1] = before._replace(last_offset=change.last)
            else:
                acquired.append(Acquired(run.first, change.last, run.delivery_count + 1))
        self._in_flight.change(changes)
        if acquired:
            self._partition.lock(acquired[0].first_offset, acquired[-1].last_offset, self._until_ms)
        self._acquired += acquired
        self._count += taken
        return taken

    def _acquire_new(self, first: int, last: int, limit: int) -> None:
        """Acquire records that were not in flight, or whose state is not known."""
        partition = self._partition
        if not self._in_flight:
            first = max(first, partition.end_offset)
        until = last
        if limit < last - first + 1:
            until = self._end_of_batch_with(first + limit - 1)
            if partition.gap_start is not None:
                until = min(until, last)
        if self._request.is_record_limit:
            got = min(until, first + limit - 1)
            runs = [self._new_run(first, got)]
            if got < until:
                runs.append(StateRun(got + 1, until, State.AVAILABLE, 0))
                partition.offer_again()
            self._in_flight.add(Batch(runs))
            new = [Acquired(first, got, 1)]
        else:
            got = until
            new = [Acquired(*offsets, 1) for offsets in self._parts(first, until)]
            for one in new:
                self._in_flight.add(Batch([self._new_run(one.first_offset, one.last_offset)]))
        partition.lock(first, got, self._until_ms)
        partition.began(first, until)
        partition.pass_gap(got + 1)
        self._acquired += new
        self._count += got - first + 1

    def _new_run(self, first: int, last: int) -> StateRun:
        return StateRun(first, last, State.ACQUIRED, 1, self._request.member_id, self._until_ms)

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Divide offsets into batches of at least the requested size, which end where the log's batches do."""
        if last - first + 1 > self._request.batch_size:
            for batch in self._fetched:
                if batch.first > last:
                    break
                if batch.first > first and batch.first - first >= self._request.batch_size:
                    yield first, batch.first - 1
                    first = batch.first
        yield first, last

    def _end_of_batch_with(self, offset: int) -> int:
        """Return the last offset of the log's batch with this offset: a batch is not divided."""
        return next((batch.last for batch in self._fetched if batch.first <= offset <= batch.last), offset)


def _without(partition: SharePartition, acquired: list[Acquired], aborted: Sequence[OffsetRange]) -> list[Acquired]:
    """Archive the acquired records that no member may see, and return the others."""
    left: list[Acquired] = []
    gone: list[StateChange] = []
    at = 0
    for one in acquired:
        first = one.first_offset
        while at < len(aborted) and aborted[at].last < first:
            at += 1
        here = at
        while here < len(aborted) and aborted[here].first <= one.last_offset:
            low, high = max(first, aborted[here].first), min(one.last_offset, aborted[here].last)
            if first < low:
                left.append(one._replace(first_offset=first, last_offset=low - 1))
            gone.append(StateChange(low, high, State.ARCHIVED))
            first = high + 1
            here += 1
        if first <= one.last_offset:
            left.append(one._replace(first_offset=first))
    partition.in_flight.change(gone)
    return left
