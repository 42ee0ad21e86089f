"""A model of a share partition, record by record in a dictionary: slow, and close to the text of KIP-932.

The real one keeps runs of equal records; both receive the same requests at every step.

The model differs from Apache Kafka 4.3.1 on purpose where Apache Kafka hangs:
- the start of the gap only grows, and the start offset passes all finished records, not only those before the gap's start;
- records that were available and are missing from the log are archived by an update, which the start offset passes;
- a full window drops finished records at its start, however they were finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.protocol.errors import ErrorCode
from ottla.server.sharing.acquiring import Acquired, AcquireRequest, OffsetRange
from ottla.server.sharing.in_flight import State
from ottla.server.sharing.share_partition import ShareLimits
from ottla.server.sharing.state_batches import ShareStateBatch

OVER = (State.ACKNOWLEDGED, State.ARCHIVED)


@dataclass
class Record:
    state: State
    deliveries: int = 0
    member: str = ""
    until_ms: int = 0


class Model:
    def __init__(self, start: int, limits: ShareLimits, states: Sequence[ShareStateBatch] = ()) -> None:
        self.limits = limits
        self.start = self.end = start
        self.records: dict[int, Record] = {}
        self.batches: list[OffsetRange] = []
        self.gap: tuple[int, int] | None = None
        for one in states:
            self._put(one.first_offset, one.last_offset, Record(State(one.delivery_state), one.delivery_count))
        if states:
            self.end = max(self.records)
            missing = [offset for offset in range(start, self.end) if offset not in self.records]
            self.gap = (missing[0], self.end) if missing else None
            self.advance()

    def _put(self, first: int, last: int, record: Record) -> None:
        self.batches = sorted([*self.batches, OffsetRange(first, last)])
        for offset in range(first, last + 1):
            self.records[offset] = Record(record.state, record.deliveries, record.member, record.until_ms)

    @property
    def gap_start(self) -> int | None:
        return self.gap[0] if self.gap and self.gap[1] == self.end else None

    def _pass_gap(self, offset: int) -> None:
        if self.gap and offset > self.gap[0]:
            self.gap = (offset, self.gap[1]) if self.gap_start is not None and offset <= self.gap[1] else None

    @property
    def ended(self) -> int:
        return sum(record.state in OVER for record in self.records.values())

    def next_fetch_offset(self) -> int:
        for offset in range(self.start, self.end + 1):
            batch = next((one for one in self.batches if one.last >= offset), None)
            hole = batch is not None and offset < batch.first
            if self.gap_start is not None and hole and offset >= self.gap_start:
                return offset
            if offset in self.records and self.records[offset].state is State.AVAILABLE:
                return offset
        return self.end + 1 if self.batches else self.end

    def has_room(self) -> bool:
        return self.next_fetch_offset() != self.end + 1 or self.room() > 0

    def room(self) -> int:
        for _ in range(2):
            room = self.limits.in_flight - (self.end - self.start + 1 if self.batches else 0)
            if room > 0:
                return room
            self.advance()
        return room

    # Acquiring

    def missing(self, wish: AcquireRequest, fetch_offset: int, fetched: Sequence[OffsetRange]) -> dict[int, State]:
        """Return the new states of records that the log no longer has, before an acquisition."""
        if wish.max_records <= 0 or not fetched or fetched[-1].last < self.start:
            return {}
        first = fetched[0].first
        if self.gap_start is not None and fetch_offset <= self.gap_start < first:
            self._pass_gap(first)
        return {
            offset: State.ARCHIVED
            for offset in range(fetch_offset, first)
            if offset in self.records and self.records[offset].state is State.AVAILABLE
        }

    def acquire(
        self,
        wish: AcquireRequest,
        fetch_offset: int,
        fetched: Sequence[OffsetRange],
        now_ms: int,
        aborted: Sequence[OffsetRange],
    ) -> list[Acquired]:
        """Return the records that a member acquires; call `missing` first."""
        if wish.max_records <= 0 or not fetched or fetched[-1].last < self.start:
            return []
        last = fetched[-1].last
        limit = min(wish.max_records, self.room())
        if limit <= 0:
            last, limit = min(last, self.end), min(wish.max_records, self.end - fetch_offset + 1)
        if limit <= 0:
            return []
        first = fetched[0].first
        until_ms = now_ms + self.limits.lock_ms
        got: list[Acquired] = []
        floor = [one for one in self.batches if one.first <= first]
        begin = max(first, self.start) if not floor else floor[-1].first if floor[-1].last >= first else first
        if begin > last:
            return []
        known = [one for one in self.batches if min(first, begin) <= one.first <= last]
        at, count, stop = begin, 0, False
        for batch in known:
            if count >= limit or stop:
                break
            if self.gap_start is not None:
                if at < batch.first:
                    count += self._new(got, wish, fetched, at, batch.first - 1, limit - count, until_ms)
                at = batch.last + 1
                if count >= limit:
                    break
            careful = max(2, (self.limits.deliveries + 1) // 2)
            free = [
                offset
                for offset in range(max(batch.first, first), min(batch.last, last) + 1)
                if offset in self.records and self.records[offset].state is State.AVAILABLE
            ]
            throttled = any(self.records[offset].deliveries >= careful for offset in free)
            if throttled and count:
                stop = True
                break
            taken = self._again(got, wish, batch, free, limit - count, careful, until_ms)
            count += taken
            stop = throttled and taken > 0
        if not stop and count < limit and (not known or known[-1].last < last):
            count += self._new(
                got, wish, fetched, known[-1].last + 1 if known else begin, last, limit - count, until_ms
            )
        if got:
            self._pass_gap(got[-1].last_offset + 1)
        return self._without(got, aborted)

    def _again(
        self,
        got: list[Acquired],
        wish: AcquireRequest,
        batch: OffsetRange,
        free: list[int],
        limit: int,
        careful: int,
        until_ms: int,
    ) -> int:
        most = self.limits.deliveries
        taken, few = 0, 0
        mine: list[Acquired] = []
        for offset in free:
            record = self.records[offset]
            if most > 2 and record.deliveries == most - 1 and taken:
                break
            if record.deliveries >= careful and not few:
                few = max(1, (batch.last - batch.first + 1) >> (record.deliveries - careful + 1))
            record.state, record.member, record.until_ms = State.ACQUIRED, wish.member_id, until_ms
            record.deliveries += 1
            taken += 1
            if mine and mine[-1].last_offset + 1 == offset and mine[-1].delivery_count == record.deliveries:
                mine[-1] = mine[-1]._replace(last_offset=offset)
            else:
                mine.append(Acquired(offset, offset, record.deliveries))
            if most > 2 and record.deliveries == most:
                break
            if wish.is_record_limit and taken == limit:
                break
            if few and taken == few:
                break
        got += mine
        return taken

    def _new(
        self,
        got: list[Acquired],
        wish: AcquireRequest,
        fetched: Sequence[OffsetRange],
        first: int,
        last: int,
        limit: int,
        until_ms: int,
    ) -> int:
        if not self.batches:
            first = max(first, self.end)
        until = last
        if last - first + 1 > limit:
            until = first + limit - 1
            until = next((one.last for one in fetched if one.first <= until <= one.last), until)
            if self.gap_start is not None:
                until = min(until, last)
        record = Record(State.ACQUIRED, 1, wish.member_id, until_ms)
        taken = until
        if wish.is_record_limit:
            taken = min(until, first + limit - 1)
            self._put(first, until, record)
            for offset in range(taken + 1, until + 1):
                self.records[offset] = Record(State.AVAILABLE)
            got.append(Acquired(first, taken, 1))
        else:
            cuts = [first]
            if until - first + 1 > wish.batch_size:
                for one in fetched:
                    if one.first <= until and one.first - cuts[-1] >= wish.batch_size:
                        cuts.append(one.first)
            for low, behind in zip(cuts, [*cuts[1:], until + 1], strict=True):
                self._put(low, behind - 1, record)
                got.append(Acquired(low, behind - 1, 1))
        if self.batches[0].first == first:
            self.start = first
        self.end = max(self.end, until)
        self._pass_gap(taken + 1)
        return taken - first + 1

    def _without(self, got: list[Acquired], aborted: Sequence[OffsetRange]) -> list[Acquired]:
        left: list[Acquired] = []
        for one in got:
            mine: list[Acquired] = []
            for offset in range(one.first_offset, one.last_offset + 1):
                if any(each.first <= offset <= each.last for each in aborted):
                    self.records[offset] = Record(State.ARCHIVED, self.records[offset].deliveries)
                elif mine and mine[-1].last_offset + 1 == offset:
                    mine[-1] = mine[-1]._replace(last_offset=offset)
                else:
                    mine.append(Acquired(offset, offset, one.delivery_count))
            left += mine
        return left

    # Acknowledgements

    def acknowledge(self, member: str, said: Sequence[tuple[int, int, Sequence[int]]]) -> ErrorCode | dict[int, State]:
        """Return the new states, or an error; ACQUIRED is a lock that starts again."""
        found: dict[int, State] = {}
        for first, last, types in said:
            if last < self.start:
                continue
            floor = [one for one in self.batches if one.first <= first]
            if not floor and first < self.start:
                floor = [one for one in self.batches if one.first <= self.start]
            if not floor:
                return ErrorCode.INVALID_RECORD_STATE
            named = [one for one in self.batches if floor[-1].first <= one.first <= last]
            if named[-1].last < first or named[-1].last < last:
                return ErrorCode.INVALID_REQUEST
            for offset in range(max(first, self.start), last + 1):
                record = self.records.get(offset)
                if record is None:
                    continue
                if record.state is not State.ACQUIRED or record.member != member:
                    return ErrorCode.INVALID_RECORD_STATE
                kind = types[0] if len(types) == 1 else types[offset - first]
                if kind == 4 and not self.limits.renews:
                    return ErrorCode.INVALID_RECORD_STATE
                ends = (State.ARCHIVED, State.ACKNOWLEDGED, self._back(record), self._dead, State.ACQUIRED)
                found[offset] = ends[kind]
        return found

    @property
    def _dead(self) -> State:
        return State.ARCHIVING if self.limits.has_dead_letters else State.ARCHIVED

    def _back(self, record: Record) -> State:
        return self._dead if record.deliveries >= self.limits.deliveries else State.AVAILABLE

    def dying(self) -> list[int]:
        """Return the records that wait for their dead letters."""
        return [offset for offset, one in sorted(self.records.items()) if one.state is State.ARCHIVING]

    def given_back(self, *, member: str | None = None, now_ms: int | None = None) -> dict[int, State]:
        return {
            offset: self._back(record)
            for offset, record in sorted(self.records.items())
            if record.state is State.ACQUIRED
            and (record.member == member if now_ms is None else record.until_ms <= now_ms)
        }

    def apply(self, states: dict[int, State], now_ms: int, *, is_written: bool = True) -> None:
        written = False
        for offset, state in states.items():
            record = self.records[offset]
            if state is State.ACQUIRED:
                record.until_ms = now_ms + self.limits.lock_ms
            else:
                self.records[offset] = Record(state, record.deliveries)
                written = is_written
        if written:
            self.advance()

    def advance(self) -> None:
        """Move the start to the first record that is not finished, or the first of the gap that is not in flight."""
        if not self.batches:
            return
        start = self.start
        while start <= self.end:
            record = self.records.get(start)
            is_gap = record is None and self.gap_start is not None and start >= self.gap_start
            if is_gap or (record is not None and record.state not in OVER):
                break
            start += 1
        self._cut(start)
        self._pass_gap(start)

    def log_starts_at(self, offset: int) -> None:
        if offset > self.start:
            self._cut(offset)
            if self.batches:
                self.end = max(self.end, offset)
            if self.gap and self.gap[0] < offset:
                self._pass_gap(offset)

    def _cut(self, start: int) -> None:
        self.start = start
        self.records = {offset: record for offset, record in self.records.items() if offset >= start}
        self.batches = [one for one in self.batches if one.last >= start]
        if not self.batches:
            self.end = start
