"""Random histories of a share partition, each step answered as by a model with one entry per record.

The steps are those of members, of time, of the log (growth, compaction, DeleteRecords) and of configs. There are also writes
that fail, and new leaders that begin with the persisted state. After each, and in each quiet moment, no share partition may
be stuck.
"""

from __future__ import annotations

from random import Random

from ottla.protocol.errors import KafkaError
from ottla.server.sharing.acknowledging import Acknowledgement, acknowledge
from ottla.server.sharing.acquiring import Acquired, AcquireRequest, OffsetRange, acquire
from ottla.server.sharing.in_flight import State
from ottla.server.sharing.share_partition import ShareLimits, SharePartition, Update
from ottla.server.sharing.state_batches import ShareStateBatch
from support.noted import each_case
from support.sharing.model import OVER, Model
from support.sizes import size

ALL = 10_000
STEPS = 60
MEMBERS = ("a", "b", "c")


class Life:
    """A partition, its model, its log, and its persisted state."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.now_ms = 0
        self.limits = ShareLimits(
            in_flight=rng.choice((5, 20, 100)),
            deliveries=rng.choice((2, 3, 5)),
            lock_ms=rng.choice((10, 50)),
            renews=rng.random() < 0.8,
            has_dead_letters=rng.random() < 0.5,
        )
        self.log: list[OffsetRange] = []
        self.aborted: set[OffsetRange] = set()
        self.log_start = start = rng.choice((0, 7))
        self.grow(start)
        self.partition = SharePartition(start, self.limits)
        self.model = Model(start, self.limits)
        self.written: dict[int, tuple[int, int]] = {}
        """Offset -> delivery count and state, as the coordinator merges the updates."""
        self.written_start = start
        self.over: set[int] = set()
        """Records that no member may get again: they are persisted as finished."""

    def grow(self, at: int | None = None) -> None:
        """Append records to the log, where some were compacted away."""
        offset = self.log[-1].last + 1 if at is None else at
        for _ in range(self.rng.randint(1, 6)):
            offset += self.rng.choice((0, 0, 0, 1, 3))
            size = self.rng.choice((1, 1, 2, 5, 9))
            self.log.append(OffsetRange(offset, offset + size - 1))
            if self.rng.random() < 0.15:
                self.aborted.add(self.log[-1])
            offset += size

    def compact(self) -> None:
        """Remove a batch in the middle of the log."""
        if len(self.log) > 3:
            self.log.pop(self.rng.randrange(len(self.log) - 1))

    def step(self) -> None:
        rng = self.rng
        steps = (self.fetch, self.fetch, self.fetch, self.say, self.say, self.say, self.give_back, self.wait)
        seldom = (self.grow, self.compact, self.cut, self.move, self.limit, self.bury, self.come_to_rest)
        rng.choice(steps if rng.random() < 0.75 else seldom)()
        self.compare()

    def fetch(self) -> None:
        rng = self.rng
        offset = self.partition.next_fetch_offset()
        there = [batch for batch in self.log if batch.last >= offset][: rng.randint(1, 6)]
        wish = AcquireRequest(
            rng.choice(MEMBERS), rng.choice((0, 1, 3, 10, 500)), rng.choice((1, 4, 500)), rng.random() < 0.3
        )
        aborted = [batch for batch in there if batch in self.aborted] if rng.random() < 0.5 else []
        self.acquire(wish, there, aborted)

    def acquire(self, wish: AcquireRequest, there: list[OffsetRange], aborted: list[OffsetRange]) -> list[Acquired]:
        offset = self.partition.next_fetch_offset()
        missing = self.model.missing(wish, offset, there)
        updates: list[Update] = []

        def carry_out(update: Update) -> None:
            updates.append(update)
            self.carry_out(update, missing, is_written=self.rng.random() < 0.9)

        got = acquire(self.partition, wish, offset, there, self.now_ms, aborted, carry_out)
        assert bool(updates) == bool(missing)
        assert got == self.model.acquire(wish, offset, there, self.now_ms, aborted)
        for one in got:
            assert self.over.isdisjoint(range(one.first_offset, one.last_offset + 1))
        return got

    def come_to_rest(self) -> None:
        """End all locks, and let a member acquire and accept all available records: it gets everything, and is never stuck."""
        self.now_ms += self.limits.lock_ms
        self.carry_out(self.partition.expire(self.now_ms), self.model.given_back(now_ms=self.now_ms))
        if self.rng.random() < 0.5:
            self.move()
        partition, is_committed = self.partition, self.rng.random() < 0.5
        while self.model.dying():
            self.bury()
        left = {
            offset
            for batch in self.log
            if not (is_committed and batch in self.aborted)
            for offset in range(max(batch.first, partition.start_offset), batch.last + 1)
            if offset not in self.model.records or self.model.records[offset].state not in OVER
        }
        seen: set[int] = set()
        while there := [batch for batch in self.log if batch.last >= partition.next_fetch_offset()]:
            before = partition.start_offset, partition.next_fetch_offset()
            assert partition.has_room() and self.model.has_room(), f"stuck at {before}, the log has {there}"
            some = there[: self.rng.randint(1, 6)]
            wish = AcquireRequest("a", self.rng.choice((1, 3, 500)), self.rng.choice((1, 500)), self.rng.random() < 0.3)
            got = self.acquire(wish, some, [batch for batch in some if is_committed and batch in self.aborted])
            assert got or (partition.start_offset, partition.next_fetch_offset()) > before, f"stuck at {before}"
            said = [Acknowledgement(one.first_offset, one.last_offset, (1,)) for one in got]
            seen |= {offset for one in said for offset in range(one.first_offset, one.last_offset + 1)}
            expected = self.model.acknowledge("a", said)
            assert isinstance(expected, dict)
            self.carry_out(acknowledge(partition, "a", said, self.now_ms, ALL)[0], expected)
        assert left <= seen
        assert partition.room() == self.model.room() > 0, "the next record finds no room"
        assert all(run.state in OVER for batch in partition.in_flight for run in batch.runs)

    def say(self) -> None:
        """Acknowledge a member's records, or other ones."""
        rng = self.rng
        member = rng.choice(MEMBERS)
        mine = [offset for offset, one in sorted(self.model.records.items()) if one.member == member]
        said, behind = [], 0
        for _ in range(rng.randint(1, 4)):
            first = rng.choice(mine) if mine and rng.random() < 0.9 else rng.randint(self.log_start, self.log[-1].last)
            first = max(first, behind)
            last = first
            while last + 1 in mine and rng.random() < 0.8:
                last += 1
            last += rng.choice((0, 0, 0, 0, 0, 0, 1, 40))
            alike = rng.random() < 0.5
            types = tuple(rng.choice((0, 1, 1, 1, 2, 2, 3, 4)) for _ in range(1 if alike else last - first + 1))
            said.append(Acknowledgement(first, last, types))
            behind = last + 1
        expected = self.model.acknowledge(member, said)
        try:
            update, _ = acknowledge(self.partition, member, said, self.now_ms, ALL)
        except KafkaError as error:
            assert error.code == expected
        else:
            assert isinstance(expected, dict), "the model refuses it"
            self.carry_out(update, expected)

    def bury(self) -> None:
        """Archive records whose dead letters are written, in any order."""
        dying = self.model.dying()
        some = set(self.rng.sample(dying, self.rng.randint(0, len(dying))))
        told = [(offset, one) for one in self.partition.dying() for offset in range(one.first, one.last + 1)]
        assert [offset for offset, _ in told] == dying
        for offset, one in told:
            deliveries = self.model.records[offset].deliveries
            assert (one.delivery_count, one.is_rejected) == (deliveries, deliveries < self.limits.deliveries)
        dead = [one._replace(first=offset, last=offset) for offset, one in told if offset in some]
        self.rng.shuffle(dead)
        self.carry_out(
            self.partition.bury(dead), dict.fromkeys(sorted(some), State.ARCHIVED), is_written=self.rng.random() < 0.9
        )

    def give_back(self) -> None:
        member = self.rng.choice(MEMBERS)
        self.carry_out(self.partition.release(member), self.model.given_back(member=member))

    def wait(self) -> None:
        self.now_ms += self.rng.choice((1, 5, 20, 60))
        due = self.partition.next_expiry_ms()
        expected = self.model.given_back(now_ms=self.now_ms)
        assert not expected or (due is not None and due <= self.now_ms)
        self.carry_out(self.partition.expire(self.now_ms), expected, is_written=self.rng.random() < 0.9)

    def carry_out(self, update: Update, expected: dict[int, State], *, is_written: bool = True) -> None:
        """Apply an update. Without `is_written` the write has failed, and the update is applied in memory alone."""
        assert {
            offset: change.state for change in update.changes for offset in range(change.first, change.last + 1)
        } == expected
        told = {
            offset: (one.delivery_count, one.delivery_state)
            for one in update.state_batches
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert told == {
            offset: (self.model.records[offset].deliveries, state)
            for offset, state in expected.items()
            if state is not State.ACQUIRED
        }
        assert update.start_offset == self.model.start
        ended = self.model.ended + sum(state in OVER for state in expected.values())
        assert update.delivery_complete_count == ended
        if told and is_written:
            self.write(update.start_offset, told)
        self.partition.apply(update if is_written else update._replace(state_batches=[]))
        self.model.apply(expected, self.now_ms, is_written=is_written)

    def write(self, start: int, told: dict[int, tuple[int, int]]) -> None:
        for offset, what in told.items():
            self.written[offset] = max(self.written.get(offset, what), what)
        self.written_start = max(self.written_start, start)
        self.written = {offset: what for offset, what in self.written.items() if offset >= self.written_start}
        self.over |= {offset for offset, (_, state) in told.items() if state in OVER}

    def cut(self) -> None:
        """Move the log's start."""
        if self.rng.random() < 0.3:
            self.log_start = self.rng.randint(self.log_start, self.log[-1].last)
            self.log = [batch for batch in self.log if batch.last >= self.log_start] or [
                OffsetRange(self.log_start, self.log_start)
            ]
            self.partition.log_starts_at(self.log_start)
            self.model.log_starts_at(self.log_start)

    def move(self) -> None:
        """Let another node lead the partition, beginning with the persisted state."""
        states = [
            ShareStateBatch(offset, offset, state, count) for offset, (count, state) in sorted(self.written.items())
        ]
        self.partition = SharePartition(self.written_start, self.limits, state_batches=states)
        self.model = Model(self.written_start, self.limits, states)

    def limit(self) -> None:
        """Change the group's configs."""
        self.limits = ShareLimits(
            in_flight=self.rng.choice((5, 20, 100)),
            deliveries=self.rng.choice((2, 3, 5)),
            lock_ms=self.limits.lock_ms,
            renews=self.rng.random() < 0.8,
            has_dead_letters=self.rng.random() < 0.5,
        )
        self.partition.limits = self.model.limits = self.limits

    def compare(self) -> None:
        partition, model = self.partition, self.model
        if self.rng.random() < 0.5:
            assert partition.has_room() == model.has_room()
        assert (partition.start_offset, partition.end_offset) == (model.start, model.end)
        assert partition.in_flight.ended == model.ended
        assert partition.next_fetch_offset() == model.next_fetch_offset()
        found = {
            offset: (run.state, run.delivery_count, run.member_id)
            for batch in partition.in_flight
            for run in batch.runs
            for offset in range(run.first, run.last + 1)
        }
        assert found == {offset: (one.state, one.deliveries, one.member) for offset, one in model.records.items()}
        assert [OffsetRange(batch.first, batch.last) for batch in partition.in_flight] == model.batches
        for batch in partition.in_flight:
            for before, run in zip(batch.runs, batch.runs[1:], strict=False):
                assert run.first == before.last + 1 and not run.continues(before)


@each_case("seed", range(size(15, 300)))
def test_a_history_matches_the_model(seed: int) -> None:
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.come_to_rest()
    life.compare()
