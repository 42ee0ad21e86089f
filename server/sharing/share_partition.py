"""One partition on its way to the members of one share group: which records are offered, to whom, and what became of them.

The rules are those of Apache Kafka 4.3.1 (KIP-932, KIP-1206, KIP-1222, KIP-1226). It is a table: it knows the time as an argument,
and fetches and writes nothing. What becomes of records is decided without touching anything (an `Update`), written down by whoever
asked, and only then carried out; an update whose writing fails leaves no trace, so no record is ever between two states.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from .in_flight import TERMINAL, Batch, InFlight, State, StateChange, StateRun
from .state_batches import ShareStateBatch, add

RUNS_AT_ONCE = 500
"""Of which something becomes in one turn: to decide, write and carry that out takes some milliseconds, with as much in flight as there
may be."""
# What the records of `__share_group_state` have room for.
_DELIVERIES_MAX, _COUNT_MAX, _OFFSET_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
_LOCKS_KEPT = 64
"""So many times are remembered, and twice as many as there were, before those that count no more are looked for."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """What the group's configs say; they may change at any time.

    Attributes:
        in_flight: `share.partition.max.record.locks`. A batch that is begun is finished beyond it.
        deliveries: `share.delivery.count.limit`.
        lock_ms: `share.record.lock.duration.ms`.
        renews: `share.renew.acknowledge.enable`.
    """

    in_flight: int = 2_000
    deliveries: int = 5
    lock_ms: int = 30_000
    renews: bool = True


class Update(NamedTuple):
    """What is to become of records, as `__share_group_state` is to be told before it is carried out (`SharePartition.apply`).

    Nothing needs to be written where there are no state batches: locks were renewed.
    """

    changes: list[StateChange]
    state_batches: list[ShareStateBatch]
    state_epoch: int
    start_offset: int
    delivery_complete_count: int
    """Of the records from `start_offset` on, those that nobody gets any more, once this is carried out."""


class Gap(NamedTuple):
    """Offsets that were in flight when the state was written, and of which it says nothing: they were acquired, and are offered
    again. Those from `start` to `end` that are not in flight are left of them, while no record after `end` is in flight."""

    start: int
    end: int


class SharePartition:
    """
    Attributes:
        start_offset: All records before it are over (SPSO).
        end_offset: The last record in flight (SPEO); where nothing is in flight, the next record to fetch.
        state_epoch: With which the state is written.
        in_flight: The records between the two.
        limits: Set anew when the group's configs change.
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
        """As it was written down.

        Raises:
            ValueError: A batch before the start offset, or before the batch that it follows, or one that ends before it begins, or in a state
                that is not written; or numbers so high that what comes after them could not be written.
        """
        self.start_offset = self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.limits = limits
        self.in_flight = InFlight()
        self.gap: Gap | None = None
        self._may_have_available = False
        self._locks: list[tuple[int, int, int]] = []
        """When locks from one offset to another may be over; a heap."""
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

    # What is offered

    @property
    def in_flight_count(self) -> int:
        """Offsets, gaps between batches included."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """The first record that might be acquired."""
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
        """Whether there is anything that a fetch could acquire, if the log has it."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.room() > 0

    def room(self) -> int:
        """How many more records may come into flight; 0 or less where there is no room.

        The start may hold records that were over without an update: of aborted transactions, or of a write that failed. A full
        window lets go of them, since no acknowledgement would. Apache Kafka keeps them, and the share partition hangs.
        """
        room = self.limits.in_flight - self.in_flight_count
        return self.limits.in_flight - self.in_flight_count if room <= 0 and self._advance() else room

    @property
    def gap_start(self) -> int | None:
        """Where the gap begins; None if there is none."""
        return self.gap.start if self.gap is not None and self.gap.end == self.end_offset else None

    def pass_gap(self, offset: int) -> None:
        """End the gap before `offset`. The gap's start only grows: a record before it may be acquired again."""
        if self.gap is not None and offset > self.gap.start:
            self.gap = Gap(offset, self.gap.end) if self.gap_start is not None and offset <= self.gap.end else None

    # What becomes of records

    def began(self, first: int, last: int) -> None:
        """Records from `first` to `last` have come into flight."""
        if self.in_flight.first.first == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)

    def offer_again(self) -> None:
        """Some records may be available."""
        self._may_have_available = True

    def release(self, member_id: str, most: int | None = None) -> Update:
        """All that a member has acquired is available again, or archived if it was delivered often enough; `most` runs of it, if that
        is given."""
        fates = (
            (run, StateChange(run.first, run.last, self.released(run)))
            for batch in self.in_flight
            for run in batch.runs
            if run.state is State.ACQUIRED and run.member_id == member_id
        )
        return self.update(islice(fates, most))

    def expire(self, elapsed_ms: int, most: int | None = None) -> Update:
        """The same for all whose time is over; what is left of them is due at once."""
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
        """Not before then need anybody ask for those whose time is over; None while there are none."""
        return self._locks[0][0] if self._locks else None

    def lock(self, first: int, last: int, until_ms: int) -> None:
        """The time of those records from `first` to `last` that are locked until then is over then."""
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
        """What records are that a member has given back."""
        return State.ARCHIVED if run.delivery_count >= self.limits.deliveries else State.AVAILABLE

    def update(self, fates: Iterable[tuple[StateRun, StateChange]]) -> Update:
        """What becomes of runs, or parts of them, in order and apart, and what is to be written of it."""
        changes: list[StateChange] = []
        batches: list[ShareStateBatch] = []
        ended = self.in_flight.ended
        for run, change in fates:
            changes.append(change)
            if change.state is not State.ACQUIRED:
                ended += (change.state in TERMINAL) * (change.last - change.first + 1)
                add(batches, ShareStateBatch(change.first, change.last, change.state, run.delivery_count))
        return Update(changes, batches, self.state_epoch, self.start_offset, ended)

    def apply(self, update: Update) -> bool:
        """Carry out what is written down, in the same turn in which it was decided.

        Returns:
            Whether members who wait may find something: records that are available, or room for others.
        """
        self.in_flight.change(update.changes)
        has_available = any(change.state is State.AVAILABLE for change in update.changes)
        renewed = [change for change in update.changes if change.state is State.ACQUIRED]
        if renewed:
            self.lock(renewed[0].first, renewed[-1].last, renewed[0].locked_until_ms)
        self._may_have_available |= has_available
        return (self._advance() if update.state_batches else False) or has_available

    def log_starts_at(self, offset: int) -> None:
        """The log has no records before `offset` any more: those who have some of them may say of them what they like."""
        if offset <= self.start_offset:
            return
        self.in_flight.cut(offset)
        self.start_offset = offset
        self.end_offset = max(offset, self.end_offset) if self.in_flight else offset
        if self.gap is not None and self.gap.start < offset:
            self.pass_gap(offset)

    def _advance(self) -> bool:
        """Let go of records at the start that are over; return whether there were any.

        The start stops at the first record that is not over, or at the first offset of the gap that is not in flight. Apache Kafka
        stops at the start of the gap in any case, and waits for ever where all records from there on are over.
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
