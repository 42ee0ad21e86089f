"""Applications whose instances come, go, crash, lag and lose answers, while topics change and the coordinator moves.

At every step no two members have the same task, neither in their own view nor in the coordinator's table, and no epoch
decreases. In the end every member has its tasks.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.groups.streams import targets
from ottla.server.groups.streams.group import StreamsGroup
from support.groups.streams_groups import (
    REBALANCE_MS,
    SESSION_MS,
    StreamsGroups,
    StreamsMember,
    compacted,
    info,
    subtopology,
    table_of,
    topology,
)
from support.sizes import size

APPLICATION = topology(
    subtopology("0", "orders", sinks=["words"]),
    subtopology("1", "bills", repartition=[info("words")], changelogs=[info("kept")]),
    subtopology("2", "more"),
)
STEPS = 120
BEAT_MS = 3_000


class Life:
    """Some processes with some members each, for a while."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.groups = StreamsGroups(
            orders=4,
            bills=4,
            more=1,
            settings={
                "group_streams_num_standby_replicas": self.rng.randrange(3),
                "group_streams_assignment_interval_ms": self.rng.choice((0, 1_000)),
                "group_streams_initial_rebalance_delay_ms": self.rng.choice((0, 3_000)),
            },
        )
        self.members: list[StreamsMember] = []
        self.away: list[StreamsMember] = []
        """Static members that have left for a while."""
        self.counter = 0
        self.epochs = (0, 0)
        """The epochs of the group, and of its assignment."""
        self.do_work_in_pieces()

    def step(self) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.12 and len(self.members) < 7:
            self.counter += 1
            instance_id = rng.choice((None, f"i{self.counter}"))
            self.members.append(
                StreamsMember(f"m{self.counter}", f"p{rng.randrange(3)}", APPLICATION, instance_id=instance_id)
            )
        elif kind < 0.17 and self.members:
            self.members.pop(rng.randrange(len(self.members))).leave(self.groups)
        elif kind < 0.20 and self.members:
            self.members.pop(rng.randrange(len(self.members)))  # killed, without a word
        elif kind < 0.23 and self.members:
            rng.choice(self.members).slowness = rng.randrange(5)
        elif kind < 0.25:
            self.groups.grow_topic("more", self.more() + 1)
        elif kind < 0.28:
            self.restart()
        elif kind < 0.31:
            self.refuse_for_a_while()
        elif kind < 0.39 and (statics := [one for one in self.members if one.instance_id and one.epoch > 0]):
            one = rng.choice(statics)
            one.leave(self.groups, -2)
            self.members.remove(one)
            self.away.append(one)
        elif kind < 0.47 and self.away:
            self.come_back()
        self.everybody_beats()
        self.groups.advance(rng.randrange(BEAT_MS))

    def come_back(self) -> None:
        """Let a static member return, perhaps with another id and in a new process."""
        one = self.away.pop(self.rng.randrange(len(self.away)))
        self.counter += 1
        one.member_id = self.rng.choice((one.member_id, f"m{self.counter}"))
        one.process_id = self.rng.choice((one.process_id, f"new{self.counter}"))
        self.members.append(one)

    def restart(self) -> None:
        self.groups = self.groups.restarted() if self.rng.random() < 0.5 else compacted(self.groups)
        self.do_work_in_pieces()

    def do_work_in_pieces(self) -> None:
        """Let heartbeats arrive between the pieces of a target assignment."""
        self.groups.works_at_once = False
        self.groups.is_over = lambda: self.rng.random() < 0.5

    def more(self) -> int:
        return self.groups.topics.partition_count(self.groups.topics.id_of("more") or b"")

    def refuse_for_a_while(self) -> None:
        self.groups.store.failure = ErrorCode.NOT_ENOUGH_REPLICAS
        before = self.groups.store.appends
        self.groups.advance(100)
        assert self.groups.store.appends == before
        self.groups.store.failure = None

    def everybody_beats(self) -> None:
        for member in self.rng.sample(self.members, len(self.members)):
            member.act(self.groups, is_answer_lost=self.rng.random() < 0.05)
            self.check()
            if self.rng.random() < 0.5:
                self.groups.coordinator._jobs.run(self.groups.is_over)

    def check(self) -> None:
        taken: dict[tuple[str, int], str] = {}
        roles: dict[tuple[str, str, int], str] = {}
        group = self.groups.coordinator.shard_of("g").groups.get("g")
        known = {} if group is None else group.members
        for member in self.members:
            if member.member_id not in known or not member.epoch:
                continue
            for role, key, partition in member.has:
                if role == 0:
                    other = taken.setdefault((key, partition), member.member_id)
                    assert other == member.member_id, f"{key}-{partition}: {other} and {member.member_id}"
                place = (member.process_id, key, partition)
                other = roles.setdefault(place, member.member_id)
                assert other == member.member_id, f"{place}: {other} and {member.member_id}"
        if isinstance(group, StreamsGroup):
            self.check_table(group)

    def check_table(self, group: StreamsGroup) -> None:
        before, self.epochs = self.epochs, (group.epoch, group.assignment_epoch)
        assert group.assignment_epoch <= group.epoch
        assert all(now >= then for now, then in zip(self.epochs, before, strict=True)), (before, self.epochs)
        owners: dict[tuple[str, int], str] = {}
        for member in group.members.values():
            assert member.epoch == -2 or member.previous_epoch <= member.epoch <= group.epoch, member
            for owned in (member.assigned, member.revoking):
                assert not owned.warmup
                for place in ((key, index) for key, epochs in owned.active.items() for index in epochs):
                    assert owners.setdefault(place, member.member_id) == member.member_id, f"{place} is owned twice"
        targets = group.targets.items()
        actives = [(key, i) for _, one in targets for key, places in one.active.items() for i in places]
        assert len(actives) == len(set(actives)), "somebody is to have what another is to have"
        copies = Counter((key, i) for _, one in targets for key, places in one.standby.items() for i in places)
        assert max(copies.values(), default=0) <= self.groups.settings["group_streams_num_standby_replicas"]

    def settle(self) -> None:
        """Let dead members time out, and all others get their tasks."""
        while self.away:
            self.come_back()
        for member in self.members:
            member.slowness = 0
        for _ in range(2 * (SESSION_MS + REBALANCE_MS) // BEAT_MS):
            self.everybody_beats()
            self.groups.advance(BEAT_MS)


@pytest.mark.parametrize("seed", range(size(3, 50)))
def test_no_task_is_owned_twice_and_finally_every_member_works(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        monkeypatch.setattr(targets, "TASKS_AT_ONCE", 0)  # as in a large group
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    if not life.members:
        life.members.append(StreamsMember("last", "p0", APPLICATION))
    life.settle()
    table = life.groups.table()
    assert table.members.keys() == {member.member_id for member in life.members}
    assert table.state_name == "Stable"
    has = sorted((key, index) for member in life.members for role, key, index in member.has if role == 0)
    assert has == [(key, index) for key, count in (("0", 4), ("1", 4), ("2", life.more())) for index in range(count)]
    for member in life.members:
        target = table.targets[member.member_id]
        roles = enumerate((target.active, target.standby))
        assert member.has == {(role, key, i) for role, places in roles for key, one in places.items() for i in one}
    assert table_of(life.groups.restarted()) == table_of(life.groups)
    assert table_of(compacted(life.groups)) == table_of(life.groups)
