"""Delivery of one partition to the members of one share group: the offered records, their members and their states.

The rules are those of Apache Kafka 4.4.0 (KIP-932, KIP-1191, KIP-1206, KIP-1222, KIP-1226). It is a table: the time is an
argument, and it fetches and writes nothing. A change of records is first computed without any effect (an `Update`), then
written by the caller, and only then applied. An update that cannot be written has no effect, so no record is ever between two
states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from .in_flight import TERMINAL, Batch, InFlight, State, StateChange, StateRun
from .state_batches import ShareStateBatch, add

RUNS_AT_ONCE = 500
"""Maximum number of runs that one step changes. To compute, write and apply that takes some milliseconds, with the maximum
number of records in flight."""
# Limits of the fields in `__share_group_state`.
_DELIVERIES_MAX, _COUNT_MAX, _OFFSET_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
_LOCKS_KEPT = 64
"""Minimum number of lock deadlines before outdated ones are removed; after that it is twice the number of locks, plus this."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """Limits from the group's configs; they may change at any time.

    Attributes:
        in_flight: `share.partition.max.record.locks`. A batch that has begun is completed beyond it.
        deliveries: `share.delivery.count.limit`.
        lock_ms: `share.record.lock.duration.ms`.
        renews: `share.renew.acknowledge.enable`.
        has_dead_letters: Whether the group has a dead letter topic.
    """

    in_flight: int = 2_000
    deliveries: int = 5
    lock_ms: int = 30_000
    renews: bool = True
    has_dead_letters: bool = False


class DeadRecords(NamedTuple):
    """Consecutive records that get dead letters; both ends are inclusive."""

    first: int
    last: int
    delivery_count: int
    is_rejected: bool
    """Whether a member has rejected them; otherwise they were delivered too often."""


class Update(NamedTuple):
    """A change of records, which must be written to `__share_group_state` before it is applied (`SharePartition.apply`).

    Without state batches nothing must be written: locks are renewed.
    """

    changes: list[StateChange]
    state_batches: list[ShareStateBatch]
    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    """Number of records from `start_offset` on that are completed, once this is applied."""
    dead: Sequence[DeadRecords] = ()
    """Records that get dead letters, once this is applied."""


class Gap(NamedTuple):
    """Offsets without state that were in flight when the state was written: they were acquired, and are offered again. The gap
    is the offsets from `start` to `end` that are not in flight. It exists as long as no record after `end` is in flight."""

    start: int
    end: int


class SharePartition:
    """
    Attributes:
        start_offset: Offset before which all records are completed (SPSO).
        end_offset: The last record in flight (SPEO); if none is in flight, the next record to fetch.
        state_epoch: Epoch with which the state is written.
        in_flight: Records between these two offsets.
        limits: Limits from the group's configs; replaced when these change.
        gap: See `Gap`.
    """

    def __init__(
        self,
        start_offset: int,
        limits: ShareLimits,
        *,
        state_epoch: int = 0,
        state_batches: Iterable[ShareStateBatch] = (),
    ) -> None:
        """Load the share partition from its written state.

        Raises:
            ValueError: A batch is before the start offset or before the previous batch, ends before it begins, or has a state
                that is never written. Or a number is so high that its successors could not be written.
        """
        self.start_offset = self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.limits = limits
        self.in_flight = InFlight()
        self.gap: Gap | None = None
        self._may_have_available = False
        self._locks: list[tuple[int, int, int]] = []
        """Heap of (time, first, last): locks of records in this range may expire then."""
        self._locks_kept = _LOCKS_KEPT
        before, gap_start = start_offset - 1, None
        for batch in state_batches:
            if not before < batch.first_offset <= batch.last_offset:
                raise ValueError(f"invalid state batch {batch}: not after offset {before}")
            if gap_start is None and batch.first_offset > before + 1:
                gap_start = before + 1
            before = batch.last_offset
            state = State(batch.delivery_state)
            if state is State.ACQUIRED:
                raise ValueError(f"invalid state batch {batch}: acquired, but without a member")
            if batch.delivery_count >= _DELIVERIES_MAX or before >= _OFFSET_MAX:
                raise ValueError(f"invalid state batch {batch}: delivery count or offset at its maximum")
            self.in_flight.add(Batch([StateRun(batch.first_offset, before, state, batch.delivery_count)]))
        if self.in_flight.ended > _COUNT_MAX:
            raise ValueError(
                f"too many finished records after offset {start_offset} ({self.in_flight.ended}, limit {_COUNT_MAX})"
            )
        if self.in_flight:
            self._may_have_available = True
            self.end_offset = before
            self.gap = None if gap_start is None else Gap(gap_start, before)
            self._advance()

    # Offered records

    @property
    def in_flight_count(self) -> int:
        """Number of offsets in flight, gaps between batches included."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """Return the first offset that might be acquired."""
        behind = self.end_offset + 1 if self.in_flight else self.end_offset
        if not self._may_have_available:
            return behind
        gap_start = self.gap_start
        for batch in self.in_flight:
            if gap_start is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(batch.last + 1, gap_start)
            for run in batch.runs:
                if run.state is State.AVAILABLE:
                    return run.first
        self._may_have_available = False
        return behind

    def has_room(self) -> bool:
        """Whether a fetch could acquire records, if the log has them."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.room() > 0

    def room(self) -> int:
        """Return the number of records that may still be acquired; 0 or less if the window is full.

        At the start there may be records that were completed without an update: those of aborted transactions, or of a failed
        write. A full window drops them, since no acknowledgement would. Apache Kafka keeps them, and the share partition hangs.
        """
        room = self.limits.in_flight - self.in_flight_count
        return self.limits.in_flight - self.in_flight_count if room <= 0 and self._advance() else room

    @property
    def gap_start(self) -> int | None:
        """First offset of the gap; None without a gap."""
        return self.gap.start if self.gap is not None and self.gap.end == self.end_offset else None

    def pass_gap(self, offset: int) -> None:
        """End the gap before `offset`. The gap's start only grows: a record before it may be acquired again."""
        if self.gap is not None and offset > self.gap.start:
            self.gap = Gap(offset, self.gap.end) if self.gap_start is not None and offset <= self.gap.end else None

    # Changes of records

    def began(self, first: int, last: int) -> None:
        """Note that records from `first` to `last` are in flight now."""
        if self.in_flight.first.first == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)

    def offer_again(self) -> None:
        """Note that some records may be available."""
        self._may_have_available = True

    def release(self, member_id: str, most: int | None = None) -> Update:
        """Return the update that makes a member's acquired records available again, or archives those with enough deliveries.
        With `most`, it has at most this number of runs."""
        fates = (
            (run, StateChange(run.first, run.last, self.released(run)))
            for batch in self.in_flight
            for run in batch.runs
            if run.state is State.ACQUIRED and run.member_id == member_id
        )
        return self.update(islice(fates, most))

    def expire(self, elapsed_ms: int, most: int | None = None) -> Update:
        """Return the update that makes records with expired locks available again, or archives those with enough deliveries. If
        there are more than `most` runs, the rest is due at once."""
        locks = self._locks
        first, last = self.end_offset + 1, self.start_offset - 1
        while locks and locks[0][0] <= elapsed_ms:
            _, low, high = heappop(locks)
            first, last = min(first, low), max(last, high)
        fates = (
            (run, StateChange(run.first, run.last, self.released(run)))
            for batch in self.in_flight.between(first, last)
            for run in batch.between(first, last)
            if run.state is State.ACQUIRED and run.locked_until_ms <= elapsed_ms
        )
        update = self.update(islice(fates, most))
        if len(update.changes) == most:
            heappush(locks, (elapsed_ms, update.changes[-1].last + 1, last))
        return update

    def next_expiry_ms(self) -> int | None:
        """Return the time before which `expire` has nothing to do; None if there are no locks."""
        return self._locks[0][0] if self._locks else None

    def lock(self, first: int, last: int, until_ms: int) -> None:
        """Note that the locks of records from `first` to `last` may expire at `until_ms`."""
        if len(self._locks) >= self._locks_kept:
            self._locks = [
                (run.locked_until_ms, run.first, run.last)
                for batch in self.in_flight
                for run in batch.runs
                if run.state is State.ACQUIRED
            ]
            heapify(self._locks)
            self._locks_kept = 2 * len(self._locks) + _LOCKS_KEPT
        heappush(self._locks, (until_ms, first, last))

    def released(self, run: StateRun) -> State:
        """Return the state of records that a member has returned."""
        return self.dead_state if run.delivery_count >= self.limits.deliveries else State.AVAILABLE

    @property
    def dead_state(self) -> State:
        """State of records that will not be delivered again, although no member has accepted them."""
        return State.ARCHIVING if self.limits.has_dead_letters else State.ARCHIVED

    def dying(self) -> list[DeadRecords]:
        """Return the records whose dead letters were not written before their state was loaded."""
        return [
            DeadRecords(run.first, run.last, run.delivery_count, run.delivery_count < self.limits.deliveries)
            for batch in self.in_flight
            for run in batch.runs
            if run.state is State.ARCHIVING
        ]

    def bury(self, dead: Iterable[DeadRecords]) -> Update:
        """Return the update that archives records whose dead letters are written, or cannot be written."""
        fates = (
            (run, StateChange(max(run.first, one.first), min(run.last, one.last), State.ARCHIVED))
            for one in sorted(dead)
            for batch in self.in_flight.between(one.first, one.last)
            for run in batch.between(one.first, one.last)
            if run.state is State.ARCHIVING
        )
        return self.update(fates)

    def update(self, fates: Iterable[tuple[StateRun, StateChange]]) -> Update:
        """Return the update for changes of runs, or of parts of them, which are in order and do not overlap."""
        changes: list[StateChange] = []
        batches: list[ShareStateBatch] = []
        dead: list[DeadRecords] = []
        ended = self.in_flight.ended
        for run, change in fates:
            changes.append(change)
            if change.state is not State.ACQUIRED:
                ended += (change.state in TERMINAL) * (change.last - change.first + 1)
                add(batches, ShareStateBatch(change.first, change.last, change.state, run.delivery_count))
            if change.state is State.ARCHIVING:
                dead.append(DeadRecords(change.first, change.last, run.delivery_count, change.is_rejected))
        return Update(changes, batches, self.state_epoch, self.start_offset, ended, dead)

    def apply(self, update: Update) -> bool:
        """Apply an update that was written, in the same step in which it was computed.

        Returns:
            Whether waiting members may find something: available records, or room for new ones.
        """
        self.in_flight.change(update.changes)
        has_available = any(change.state is State.AVAILABLE for change in update.changes)
        renewed = [change for change in update.changes if change.state is State.ACQUIRED]
        if renewed:
            self.lock(renewed[0].first, renewed[-1].last, renewed[0].locked_until_ms)
        self._may_have_available |= has_available
        return (self._advance() if update.state_batches else False) or has_available

    def log_starts_at(self, offset: int) -> None:
        """Drop the records before `offset`, which the log no longer has. Acknowledgements of them are ignored."""
        if offset <= self.start_offset:
            return
        self.in_flight.cut(offset)
        self.start_offset = offset
        self.end_offset = max(offset, self.end_offset) if self.in_flight else offset
        if self.gap is not None and self.gap.start < offset:
            self.pass_gap(offset)

    def _advance(self) -> bool:
        """Drop completed records at the start, and return whether there were any.

        The start stops at the first record that is not completed, or at the first offset of the gap that is not in flight.
        Apache Kafka stops at the start of the gap in any case, and waits for ever if all records from there on are completed.
        """
        start, gap_start = self.start_offset, self.gap_start
        for batch in self.in_flight:
            first = batch.runs[0].first
            if gap_start is not None and first > max(start, gap_start):
                start = max(start, gap_start)
                break
            start = max(start, first)  # The log has no records between two batches, or before the first.
            open_run = next((run for run in batch.runs if run.state not in TERMINAL), None)
            if open_run is not None:
                start = open_run.first
                break
            start = batch.last + 1
        if start == self.start_offset:
            return False
        if start > self.in_flight.last.last:
            self.end_offset = start
        self.in_flight.cut(start)
        self.start_offset = start
        self.pass_gap(start)
        return True
