"""Chooses requests about one group that mostly make sense, from the answers that its members received."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable

from .asking import FINAL_EPOCH, FULL_EPOCH, Answer
from .configurations import AGO, Kind
from .sayings import Ranges, sayings, without
from .steps import (
    RELEASE,
    UNKNOWN_TOPIC,
    Acknowledge,
    AlterOffsets,
    Beat,
    Config,
    DeleteGroup,
    DeleteOffsets,
    DeleteRecords,
    DeleteState,
    Drop,
    EndTransaction,
    Fetch,
    InitState,
    Look,
    Offsets,
    Pause,
    Place,
    Produce,
    ReadState,
    Says,
    Settled,
    Step,
    Summary,
    WriteState,
)
from .times import Times

LOADER = "loader"
COMPACTED = "compacted"
PARTITIONS = 2
# How long the first fetch from a share partition waits until its state is read; without records to acquire, a fetch waits this
# long.
LOADS_MS, LOADS_NOTHING_MS = 1_000, 250
SETTLES_S = 0.3
"""The time until Apache Kafka's coordinators agree about a group's new partitions."""
RELEASED_S = 0.1
"""The time until Apache Kafka releases the records of an ended session, once that is written."""
TWO_HOURS_S = 7_200
FENCED = frozenset({"NOT_LEADER_OR_FOLLOWER", "FENCED_STATE_EPOCH", "GROUP_ID_NOT_FOUND"})


class World:
    """One life of a group. The random generator makes every choice, so that its seed reproduces the life.

    Args:
        name: The group's name; its topics have similar names.
    """

    def __init__(self, rng: random.Random, kind: Kind, name: str) -> None:
        self._rng, self._kind, self.group = rng, kind, name
        self.times = Times(kind.lock_ms / 1000, kind.session_ms / 1000)
        self.topics = (f"{name}-a", f"{name}-b")
        self._members = [f"{name}-m{number}" for number in range(kind.members)]
        self._written = [Place(topic, index) for topic in self.topics for index in range(PARTITIONS)]
        self._places = [*self._written]
        if kind.transactions:
            self._places.append(Place(COMPACTED, 0))
        self.has_compacted = kind.transactions
        self._ends: dict[Place, int] = defaultdict(int)
        self._has: dict[tuple[str, Place], Ranges] = defaultdict(list)
        self._sessions: dict[str, set[Place]] = {}
        """Member -> what its session has; loader among them."""
        self._loaded: set[Place] = set()
        self._starts: dict[Place, int] = {}
        """The start offsets of logs after DeleteRecords."""
        self._moved: dict[Place, int] = {}
        """The start offsets of the group after AlterShareGroupOffsets."""
        self._joined: set[str] = set()
        self._transactions: dict[str, set[Place]] = {}
        self._batches: dict[str, list[tuple[Place, int, int]]] = defaultdict(list)
        """Transaction -> its writes, if it is open: the place, the first offset, and the offset after the last."""
        self._aborted: list[tuple[Place, int, int]] = []
        self._queue: deque[Step] = deque(self._beginning())
        self._what: dict[str, tuple[int, Callable[[], Step]]] = {
            "fetch": (40, self._fetch),
            "acknowledge": (24, self._acknowledge),
            "produce": (12, self._produce),
            "beat": (8, self._beat),
            "look": (4, lambda: Look(self.group)),
            "offsets": (6, self._offsets),
            "alter": (2, self._alter),
            "forget": (1, self._forget),
            "delete": (1, lambda: DeleteGroup(self.group)),
            "state": (6, self._state),
            "delete records": (2, self._delete_records),
            "drop": (1, lambda: Drop(rng.choice(self._members))),
            "end": (8 if kind.transactions else 0, self._end),
        }

    def _beginning(self) -> list[Step]:
        """Return configs, records before the group, and the join of a first member, which initializes the share partitions.

        A fifth of the groups know one partition before: the other one of its topic is new in a known topic.
        """
        rng = self._rng
        chosen = [(name, rng.choice(values)) for name, values in self._kind.configs]
        configs: list[Step] = [Config(self.group, name, value) for name, value in chosen if value is not None]
        produced: list[Step] = [self._produce() for _ in range(rng.randrange(6))]
        self._is_by_time = AGO in dict(chosen).values()
        if self._is_by_time:
            # If no record is young enough, a share partition is not initialized, and a fetch that also reads others may or may
            # not report that.
            produced += [Produce(place, (10,) * 3, age_s) for place in self._written for age_s in (TWO_HOURS_S, 0)]
        known = rng.random() < 0.2
        moved: list[Step] = [AlterOffsets(self.group, ((self.topics[0], ((rng.randrange(2), 0),)),))] if known else []
        return [*configs, *produced, *moved, *self._joining()]

    def _joining(self) -> list[Step]:
        """Have the first member join and initialize all share partitions."""
        subscribed = (*self.topics, *((COMPACTED,) if self._kind.transactions else ()))
        first = self._members[0]
        return [Beat(self.group, first, 0, 0, subscribed), Pause(SETTLES_S), Beat(self.group, first)]

    def _leaving(self) -> list[Step]:
        return [Beat(self.group, member, -1) for member in sorted(self._joined)]

    def _dropping(self) -> list[Step]:
        """Let all fetching members disconnect, so that share partitions must be initialized again."""
        return [Drop(member) for member in sorted(self._sessions)]

    def next_step(self) -> Step:
        if not self._queue:
            if self._rng.random() < self._kind.pause:
                pause = Pause(self._rng.choice((0.4, 1.0, 1.5, self.times.longest_s)))
                if pause.seconds == self.times.longest_s and self._rng.random() < 0.7:
                    self._has.clear()
                return pause
            weights, makers = zip(*self._what.values(), strict=True)
            step = self._rng.choices(makers, weights)[0]()
            self._queue.extend(self._prepared(step))
            if isinstance(step, Beat):
                self._queue.append(Pause(SETTLES_S))
            if isinstance(step, Fetch | Acknowledge) and step.epoch == FINAL_EPOCH:
                self._queue.extend(self._released(step.member))
        return self._queue.popleft()

    def _prepared(self, step: Step) -> list[Step]:
        if isinstance(step, Fetch):
            return self._loading(step)
        if isinstance(step, AlterOffsets | DeleteOffsets | DeleteGroup):
            # Refused while there are members. Apache Kafka's share partitions find out once they write (../DIFFERENCES.md).
            leaves = not self._joined or self._rng.random() < 0.5
            return [*(self._leaving() if leaves else ()), *self._dropping(), step]
        if isinstance(step, DeleteRecords):
            # Apache Kafka's share partition notices deleted records when it fetches them (../DIFFERENCES.md). A new one does so.
            return [*self._dropping(), step]
        return [step]

    def _loading(self, step: Fetch) -> list[Step]:
        """A fetch of share partitions whose states are not read yet answers without them: have them read first, one by one."""
        if step.max_records <= 0 or step.max_bytes <= 0 or step.epoch == FINAL_EPOCH:
            return [step]
        wanted = {*step.places, *(place for place, _ in step.says), *self._sessions.get(step.member, ())}
        new = sorted(place for place in wanted - self._loaded if place in self._places)
        if not new:
            return [step]
        loads: list[Step] = []
        for place in new:
            wait_ms = LOADS_MS if self._ends[place] or place.topic == COMPACTED else LOADS_NOTHING_MS
            loads.append(Fetch(self.group, LOADER, FULL_EPOCH, 0, (place,), max_records=1, wait_ms=wait_ms))
            loads += [Fetch(self.group, LOADER, FINAL_EPOCH), Settled(self.group, (place,)), Pause(RELEASED_S)]
        return [*loads, step]

    def _released(self, member: str) -> list[Step]:
        """Have the session of a member end, which releases its records."""
        return [Settled(self.group, tuple(sorted(self._sessions.get(member, ())))), Pause(RELEASED_S)]

    # Results

    def told(self, step: Step, answer: Answer, began_s: float, ended_s: float) -> None:
        match step:
            case Fetch():
                self._fetched(step, answer, began_s, ended_s)
            case Acknowledge():
                if answer[0] == "NONE":
                    self._said(step.member, step.says, {place: row[0] for place, row in answer[4].items()})
                    if step.renews:
                        self.times.locked(began_s, ended_s)
                    if step.epoch == FINAL_EPOCH:
                        self._ended(step.member)
            case Drop():
                self._ended(step.member)
                if not self._sessions:
                    # Share partitions are released, and must be loaded again.
                    self._queue.appendleft(Settled(self.group, tuple(sorted(self._loaded))))
                    self._queue.appendleft(Pause(RELEASED_S))
                    self._loaded.clear()
            case Beat():
                self.times.beat(step.member, began_s, ended_s, is_over=step.epoch == -1 or answer[0] != "NONE")
                (self._joined.add if answer[0] == "NONE" and answer[3] >= 0 else self._joined.discard)(step.member)
            case Produce():
                if answer[0] == "NONE":
                    self._ends[step.place] = answer[1] + len(step.sizes)
                    if step.transaction is not None:
                        self._transactions.setdefault(step.transaction, set()).add(step.place)
                        self._batches[step.transaction].append((step.place, answer[1], self._ends[step.place]))
            case DeleteGroup() | DeleteOffsets():
                if step.group == self.group and "NONE" in repr(answer):
                    # The states were deleted: have them initialized again.
                    self._loaded.clear()
                    self._queue.extend(self._joining())
            case AlterOffsets():
                self._loaded.clear()
                asked = {Place(topic, index): offset for topic, rows in step.rows for index, offset in rows}
                accepted = {Place(topic, index) for topic, index, error, _ in answer[2] if error == "NONE"}
                self._moved |= {place: offset for place, offset in asked.items() if place in accepted}
            case DeleteRecords():
                if answer[0] == "NONE":
                    self._starts[step.place] = answer[1]
            case EndTransaction():
                for place, (_, end) in answer:
                    self._ends[place] = end
                self._transactions.pop(step.transaction, None)
                batches = self._batches.pop(step.transaction, [])
                if not step.commit:
                    self._aborted += batches

    def stumbles(self, step: Step, theirs: Answer, ours: Answer) -> bool:
        """Whether a fetch met a batch in which the log or the group begins, as Apache Kafka does (../DIFFERENCES.md): it acquired what was
        deleted, or failed as the transaction was aborted. A fetch that waited tells of no error then, and of no records, now and ever
        after: so of those partitions alone, where that is all that differs."""
        if not isinstance(step, Fetch):
            return False
        if any(
            (row[0] == "UNKNOWN_SERVER_ERROR" and (start or self._begins_in_aborted(place)))
            or any(first < start for first, _, _ in row[5])
            for place, row in theirs[4].items()
            for start in (self._starts.get(place, 0),)
        ):
            return True
        of_theirs, of_ours = theirs[4], ours[4]
        differ = {place for place in of_theirs.keys() | of_ours.keys() if of_theirs.get(place) != of_ours.get(place)}
        return theirs[:4] == ours[:4] and all(
            self._begins_in_aborted(place) and not (place in of_theirs and of_theirs[place][5]) for place in differ
        )

    def _begins_in_aborted(self, place: Place) -> bool:
        starts = self._starts.get(place, 0), self._moved.get(place, 0)
        return any(of == place and first < start < end for of, first, end in self._aborted for start in starts)

    def _fetched(self, step: Fetch, answer: Answer, began_s: float, ended_s: float) -> None:
        if answer[0] != "NONE":
            if step.epoch == FULL_EPOCH or answer[0] == "SHARE_SESSION_NOT_FOUND":
                self._ended(step.member, releases=False)
            return
        if step.epoch == FULL_EPOCH:
            self._sessions[step.member] = set()
        rows = answer[4]
        self._said(step.member, step.says, {place: row[2] for place, row in rows.items()})
        if step.renews:
            self.times.locked(began_s, ended_s)
        if step.epoch == FINAL_EPOCH:
            self._ended(step.member)
            return
        session = self._sessions.setdefault(step.member, set())
        session.update(step.places, (place for place, _ in step.says))
        session.difference_update(step.forget)
        for place, row in rows.items():
            if step.member == LOADER:
                self._loaded.add(place)
            if row[0] in FENCED or row[2] in FENCED:
                self._loaded.discard(place)
            for first, last, _ in row[5]:
                self._has[step.member, place].append((first, last))
                self.times.locked(began_s, ended_s)

    def _said(self, member: str, says: tuple[tuple[Place, Says], ...], errors: dict[Place, str]) -> None:
        for place, batches in says:
            if errors.get(place) in FENCED:
                self._loaded.discard(place)
            if errors.get(place) == "NONE":
                for first, last, types in batches:
                    if set(types) != {4}:
                        self._has[member, place] = without(self._has[member, place], first, last)

    def _ended(self, member: str, *, releases: bool = True) -> None:
        self._sessions.pop(member, None)
        if releases:
            for place in self._places:
                self._has.pop((member, place), None)

    # Members

    def _member(self) -> str:
        """Return one of the first members, mostly."""
        return self._rng.choice(self._members[:4] if self._rng.random() < 0.8 else self._members)

    def _fetch(self) -> Step:
        rng = self._rng
        member = self._member()
        has_session = member in self._sessions
        epoch: int | None = None if has_session else FULL_EPOCH
        off = 0
        if rng.random() < 0.05:
            epoch, off = rng.choice(((FULL_EPOCH, 0), (None, 1), (None, -1), (FINAL_EPOCH, 0), (7, 0), (-2, 0)))
        if epoch == FULL_EPOCH and any(self._has.get((member, place)) for place in self._places):
            # Records that were acquired outside of a session are released when connections end, but Apache Kafka's timers
            # continue.
            epoch = FINAL_EPOCH
        places: tuple[Place, ...] = ()
        if epoch == FULL_EPOCH or rng.random() < 0.15:
            places = tuple(rng.sample(self._places, rng.choice((1, 1, 1, 2, 3))))
            if rng.random() < 0.05:
                places += (rng.choice((Place(self.topics[0], 7), Place(self.topics[0], -1))),)
        forget: tuple[Place, ...] = ()
        if epoch is None and rng.random() < 0.1:
            forget = tuple(place for place in rng.sample(self._places, 2) if not self._has.get((member, place)))
            places = tuple(place for place in places if place not in forget)
        says: tuple[tuple[Place, Says], ...] = ()
        version = rng.choice((1, 2, 2))
        renews = version == 2 and rng.random() < 0.06
        if rng.random() < (0.3 if epoch != FULL_EPOCH else 0.02) or renews:
            # A topic that there is not stays in the session, which Apache Kafka serves no more (../DIFFERENCES.md).
            says = tuple(one for one in self._says(member, renews) if one[0].topic != UNKNOWN_TOPIC)
        step = Fetch(
            self.group,
            member,
            epoch,
            off,
            places,
            says,
            forget,
            max_records=rng.choice((1, 3, 10, 10, 50, 500, 500)),
            batch_size=rng.choice((1, 5, 10, 50, 500, 500)),
            min_bytes=rng.choice((0, 1, 1, 1, 1, 300)),
            max_bytes=rng.choice((1, 200, 1_500, 1 << 20, 1 << 20, 1 << 20)),
            wait_ms=rng.choice((0, 0, 0, 20)),
            mode=rng.choices((0, 1, 2), (60, 38, 2))[0] if version == 2 else 0,
            renews=renews,
            version=version,
        )
        if len(self._session_with(step)) > 1:
            # If the limits are too small for all partitions, Apache Kafka picks partitions at random (../DIFFERENCES.md).
            step = step._replace(max_records=500, max_bytes=1 << 20)
        if renews and rng.random() < 0.8:
            step = step._replace(max_records=0, max_bytes=0, min_bytes=0, wait_ms=0)
        elif self._frees(says) or rng.random() < 0.03:
            # Apache Kafka writes acknowledgements while it fetches: which records are available then is chance.
            step = step._replace(max_records=0)
        return step

    def _session_with(self, step: Fetch) -> set[Place]:
        before = set() if step.epoch == FULL_EPOCH else self._sessions.get(step.member, set())
        return (before | {*step.places, *(place for place, _ in step.says)}) - {*step.forget}

    def _frees(self, says: tuple[tuple[Place, Says], ...]) -> bool:
        """Return whether it makes records available, or room for others."""
        has_limit = self._kind.records_max > 20
        return bool(says) and (has_limit or any(RELEASE in types for _, some in says for _, _, types in some))

    def _acknowledge(self) -> Step:
        rng = self._rng
        able = [member for member, _ in self._has if self._has[member, _]] or self._members
        member = rng.choice(able)
        if member == LOADER:
            member = self._members[0]
        version = rng.choice((1, 2, 2))
        renews = version == 2 and rng.random() < 0.15
        epoch: int | None = None
        off = 0
        if member not in self._sessions and rng.random() < 0.8:
            return self._fetch()
        if rng.random() < 0.06:
            epoch, off = rng.choice(((FULL_EPOCH, 0), (None, 1), (None, -1), (FINAL_EPOCH, 0), (FINAL_EPOCH, 0)))
        return Acknowledge(self.group, member, self._says(member, renews), epoch, off, renews, version)

    def _says(self, member: str, renews: bool) -> tuple[tuple[Place, Says], ...]:
        rng = self._rng
        mine = [place for place in self._places if self._has.get((member, place))]
        places = mine if mine and rng.random() < 0.95 else self._places
        chosen = rng.sample(places, min(len(places), rng.choice((1, 1, 1, 2))))
        says = [
            (place, sayings(rng, self._has.get((member, place), []), self._ends[place], renews=renews))
            for place in chosen
        ]
        if rng.random() < 0.03:
            says.append((rng.choice((Place(UNKNOWN_TOPIC, 0), Place(self.topics[0], 7))), ((0, 0, (1,)),)))
        return tuple(says)

    # Groups

    def _beat(self) -> Step:
        rng = self._rng
        member = self._member()
        topics = tuple(rng.sample(self.topics, rng.randint(1, 2))) + ((UNKNOWN_TOPIC,) if rng.random() < 0.05 else ())
        kind = rng.choices(("beat", "join", "leave", "bad"), (60, 15, 15, 6))[0]
        rack = rng.choice((None, None, "r"))
        if kind == "bad":
            bad = (
                Beat(self.group, member, -2),
                Beat(self.group, member, 0),
                Beat(self.group, "", 0, 0, topics),
                Beat(self.group, member, 0, 0, topics, ""),
                Beat(self.group, member, None, rng.choice((-1, 1, 3))),
                Beat(self.group, "stranger", 4),
                Beat("", member, 0, 0, topics),
            )
            return rng.choice(bad)
        if kind == "join" or member not in self._joined:
            return Beat(self.group, member, 0, 0, topics, rack)
        if kind == "leave":
            return Beat(self.group, member, -1)
        return Beat(self.group, member, topics=topics if rng.random() < 0.2 else None, rack=rack)

    def _offsets(self) -> Step:
        rng = self._rng
        version = rng.choice((0, 1, 1))
        if rng.random() < 0.4:
            return Offsets(self.group, None, version)
        names = rng.sample((*self.topics, UNKNOWN_TOPIC), rng.randint(1, 2))
        return Offsets(self.group, tuple((name, rng.choice(((0,), (0, 1), (1,)))) for name in names), version)

    def _alter(self) -> Step:
        rng = self._rng
        names = rng.sample((*self.topics, UNKNOWN_TOPIC), rng.randint(1, 2))
        end = max(self._ends.values(), default=0)

        def row(partition: int) -> tuple[int, int]:
            return partition, rng.choice((0, -1, rng.randint(0, end + 3)))

        # In Apache Kafka a topic of which only unknown partitions are named counts as known (../DIFFERENCES.md).
        rows = [(row(rng.randrange(2)), *((row(7),) if rng.random() < 0.25 else ())) for _ in names]
        return AlterOffsets(self.group, tuple(zip(names, rows, strict=True)))

    def _forget(self) -> Step:
        return DeleteOffsets(self.group, tuple(self._rng.sample((*self.topics, UNKNOWN_TOPIC), 2)))

    # States and logs

    def _state(self) -> Step:
        """Return a request for another group, mostly: a write to this group takes its share partitions from their leader."""
        rng = self._rng
        group = self.group if rng.random() < 0.04 else f"{self.group}-states"
        place = rng.choice((*self._places[:2], *self._places[:2], Place(UNKNOWN_TOPIC, 0), Place(self.topics[0], 7)))
        state_epoch, leader_epoch = rng.choice((-1, 0, 0, 1, 1, 1, 1, 2)), rng.choice((-1, 0, 0, 0, 0, 0, 1, 1))
        if group == self.group:
            return Summary(group, place, leader_epoch, rng.randrange(2))
        match rng.choices(("init", "read", "write", "delete", "summary"), (20, 25, 40, 5, 20))[0]:
            case "init":
                return InitState(group, place, state_epoch, rng.choice((-1, 0, 5)))
            case "read":
                return ReadState(group, place, leader_epoch)
            case "delete":
                return DeleteState(group, place)
            case "summary":
                return Summary(group, place, leader_epoch, rng.randrange(2))
        batches = []
        first = start = rng.choice((-1, 0, 0, 3, 10))
        for _ in range(rng.randrange(4)):
            first = max(0, first + rng.choice((0, 0, 2, -1)))
            last = first + rng.choice((0, 1, 5, 20))
            batches.append((first, last, rng.choice((0, 0, 2, 4)), rng.randrange(4)))
            first = last + 1
        count = rng.choice((-1, 0, 3))
        return WriteState(group, place, state_epoch, leader_epoch, start, count, tuple(batches), rng.randrange(2))

    def _produce(self) -> Step:
        rng = self._rng
        place = rng.choice(self._written)
        sizes = tuple(rng.choice((5, 20, 100)) for _ in range(rng.randint(1, self._kind.records_max)))
        transaction = None
        if self._kind.transactions and rng.random() < 0.6:
            transaction = f"{self.group}-t{rng.randrange(2)}"
        return Produce(place, sizes, rng.choice((0, 0, TWO_HOURS_S)), transaction)

    def _end(self) -> Step:
        if not self._transactions:
            return self._produce()
        return EndTransaction(self._rng.choice(sorted(self._transactions)), self._rng.random() < 0.5)

    def _delete_records(self) -> Step:
        place = self._rng.choice(self._written)
        end = self._ends[place]
        if self._is_by_time:
            return Look(self.group)  # Where no record is left, none is young enough.
        return DeleteRecords(
            place, self._rng.choice((-1, self._rng.randint(0, end), self._rng.randint(0, end), end + 1))
        )
