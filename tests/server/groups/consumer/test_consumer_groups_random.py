"""Members of a consumer group that come, leave, crash, pause and return at random, while topics change and the broker
restarts and its wall clock is set: what must hold of any group."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.server.groups.consumer import protocol, reconciliation, targets
from ottla.server.groups.consumer.group import ConsumerGroup
from support.broker.steppable_wall import WALL_STEPS_MS
from support.groups.consumer_groups import REBALANCE_MS, SESSION_MS, ConsumerGroups, ConsumerMember
from support.groups.groups import MemoryStore
from support.sizes import size

HEARTBEAT_MS = 1_000
ASSIGNMENT_INTERVAL_MS = 1_000
MOST_MEMBERS = 8
# From the last disturbance until every partition has an owner: a crash is seen after the session time; others learn of
# the new assignment, give up, and get what is free, each with a heartbeat. A member that is too slow is put out, comes
# back with nothing, and what it then gets is an assignment more, which others may be too slow for.
SETTLED_MS = SESSION_MS + (MOST_MEMBERS + 1) * (REBALANCE_MS + ASSIGNMENT_INTERVAL_MS + 6 * HEARTBEAT_MS)
# Heartbeats until a member has given up what it must; the last are longer than the rebalance time-out.
SLOWNESS = [0, 0, 0, 1, 3, 8, 15, 15]
NAMES = ("orders", "bills")


class World:
    """A group, its living members, and the topics that they consume."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.groups = ConsumerGroups(
            orders=3, settings={"group_consumer_assignment_interval_ms": ASSIGNMENT_INTERVAL_MS}
        )
        self.alive: list[ConsumerMember] = []
        self.paused: dict[ConsumerMember, int] = {}
        self.names = 0
        self.disturbed_ms = self.groups.elapsed_ms
        self.let_in_between()

    def do(self, action: str) -> None:
        """One disturbance; that the wall clock is set is none."""
        if action in WALL_STEPS_MS:
            self.groups.set_wall(WALL_STEPS_MS[action])
            return
        self.disturbed_ms = self.groups.elapsed_ms
        rng, groups = self.rng, self.groups
        one = rng.choice(self.alive) if self.alive else None
        name = rng.choice(NAMES)
        count = groups.topics.partition_count(groups.topics.id_of(name) or b"")
        match action:
            case "come" if len(self.alive) < MOST_MEMBERS:
                self.come(None)
            case "come static" if len(self.alive) < MOST_MEMBERS:
                instance = f"s{rng.randrange(3)}"
                if all(member.instance_id != instance for member in self.alive):
                    self.come(instance)
            case "crash" if one is not None:
                self.go(one)
            case "leave" if one is not None:
                self.go(one)
                one.leave(groups)
            case "leave for a while" if one is not None and one.instance_id is not None:
                one.leave(groups, -2)
            case "pause" if one is not None:
                self.paused[one] = groups.elapsed_ms + rng.choice([5_000, REBALANCE_MS + 3_000, SESSION_MS + 5_000])
                self.disturbed_ms = self.paused[one]
            case "lose an answer" if one is not None and one not in self.paused:
                one.act(groups, is_answer_lost=True)
            case "subscribe" if one is not None:
                one.subscribe(*rng.choice([NAMES, NAMES[:1], NAMES[1:]]))
            case "topic grows" if count < 6:
                (groups.grow_topic if count else groups.create_topic)(name, count + 1)
            case "topic is deleted" if count:
                groups.delete_topic(name)
            case "hurry" if one is not None:
                one.slowness = 0
            case "restart":
                self.groups = groups.restarted()
                self.let_in_between()

    def let_in_between(self) -> None:
        """What is due happens in pieces, and now and then somebody's heartbeat comes in between two of them."""
        self.groups.is_over = lambda: self.rng.random() < 0.4
        self.groups.between = self.act_in_between

    def act_in_between(self) -> None:
        present = [one for one in self.alive if one not in self.paused]
        if present and self.rng.random() < 0.3:
            self.rng.choice(present).act(self.groups)
            self.check_owners_in_between()

    def come(self, instance_id: str | None) -> None:
        self.names += 1
        topics = self.rng.choice([NAMES, NAMES, NAMES[:1]])
        member = ConsumerMember(f"m{self.names}", instance_id=instance_id, topics=topics)
        member.slowness = self.rng.choice(SLOWNESS)
        self.alive.append(member)

    def go(self, member: ConsumerMember) -> None:
        self.alive.remove(member)
        self.paused.pop(member, None)

    def pass_time(self, by_ms: int) -> None:
        """Everybody who is not paused sends a heartbeat once every interval, in any order."""
        end_ms = self.groups.elapsed_ms + by_ms
        while self.groups.elapsed_ms < end_ms:
            self.groups.advance(min(HEARTBEAT_MS, end_ms - self.groups.elapsed_ms))
            self.rng.shuffle(self.alive)
            for member in self.alive:
                if self.groups.elapsed_ms >= self.paused.get(member, 0):
                    self.paused.pop(member, None)
                    member.act(self.groups)
                    self.check_owners()
            if self.groups.elapsed_ms - self.disturbed_ms >= SETTLED_MS:
                self.check_settled()

    def table(self) -> ConsumerGroup | None:
        group = self.groups.coordinator.shard_of("g").groups.get("g")
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    def check_owners(self) -> None:
        """No partition has two owners among those who are in the group; nobody owns what the group does not know."""
        group = self.check_owners_in_between()
        if group is not None:
            check_table(group)

    def check_owners_in_between(self) -> ConsumerGroup | None:
        """The same, while not all of what follows from it has been done."""
        group = self.table()
        if group is None:
            return None
        owned: dict[tuple[bytes, int], str] = {}
        for member in self.alive:
            if member.member_id in group.members:
                for place in member.owned:
                    assert owned.setdefault(place, member.member_id) == member.member_id
                    assert group.owners.table[place[0]][place[1]] == member.member_id
        return group

    def check_settled(self) -> None:
        """Every partition of every topic that somebody subscribes to has exactly one living owner."""
        topics = self.groups.topics
        wanted = [
            (topic_id, partition)
            for name in NAMES
            if (topic_id := topics.id_of(name)) is not None and any(name in member.topics for member in self.alive)
            for partition in range(topics.partition_count(topic_id))
        ]
        assert sorted(place for member in self.alive for place in member.owned) == sorted(wanted)
        if self.alive:
            assert self.groups.described().group_state == "Stable"

    def check_reload(self) -> None:
        """Another coordinator finds the same, also in a log that was compacted."""
        if (group := self.table()) is not None:
            again = self.groups.restarted().table()
            assert said(again) == said(group)
            compacted = ConsumerGroups(compacted_store(self.groups.store), topics=self.groups.topics)
            assert said(compacted.table()) == said(group)


def said(group: ConsumerGroup) -> dict[str, Any]:
    """All that a group's records say."""
    derived = {
        "sessions",
        "waits",
        "refresh_at_ms",
        "topics_known_to",
        "assigned_at_ms",
        "resolved_at_ms",
        "resolve_again_ms",
        "is_assigning",
        "version",
        "_subscribed_topics",
    }
    return {name: value for name, value in vars(group).items() if name not in derived} | {"owners": group.owners.table}


def compacted_store(store: MemoryStore) -> MemoryStore:
    """Only the last record of every key, in their order; tombstones are gone."""
    after = MemoryStore(len(store.partitions))
    for partition in range(len(store.partitions)):
        records = store.records(partition)
        last = {record.key: record.offset for record in records}
        for record in records:
            if record.value is not None and last[record.key] == record.offset:
                after.append_batch(partition, build_batch([(0, 0, record.key, record.value, ())]))
    return after


def check_table(group: ConsumerGroup) -> None:
    """What the tables of a group say of each other."""
    places = [
        (place, member.member_id)
        for member in group.members.values()
        for owned in (member.assigned, member.revoking)
        for topic_id, partitions in owned.items()
        for place in ((topic_id, partition) for partition in partitions)
    ]
    owners = {(topic_id, index): name for topic_id, row in group.owners.table.items() for index, name in row.items()}
    assert len(places) == len(owners)
    assert dict(places) == owners and all(group.owners.table.values())
    assert group.targets.keys() <= group.members.keys()
    assert group.static_members == {
        member.instance_id: member_id for member_id, member in group.members.items() if member.instance_id
    }
    assert group.sessions.keys() == group.members.keys()
    assert group.waits.keys() <= group.members.keys()
    assert all(member.epoch <= group.epoch for member in group.members.values())
    targeted = [(one, index) for target in group.targets.values() for one, all in target.items() for index in all]
    assert len(targeted) == len(set(targeted))


class Step(NamedTuple):
    action: str
    then_wait_ms: int


ACTIONS = [
    "come",
    "come",
    "come",
    "come static",
    "come static",
    "crash",
    "leave",
    "leave for a while",
    "pause",
    "lose an answer",
    "subscribe",
    "hurry",
    "topic grows",
    "topic is deleted",
    "restart",
    "nothing",
    *WALL_STEPS_MS,
]
STEPS = st.lists(
    st.builds(
        Step, st.sampled_from(ACTIONS), st.sampled_from([0, 300, 1_000, 4_000, 12_000, SESSION_MS, SETTLED_MS + 3_000])
    ),
    max_size=25,
)


@settings(max_examples=size(4, 60))
@given(STEPS, st.integers(0, 2**32 - 1), st.booleans())
def test_no_partition_has_two_owners_and_none_is_left_without(steps: list[Step], seed: int, is_large: bool) -> None:
    world = World(random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            # The target assignment of a large group is made in pieces, and so are the steps of its members.
            patch.setattr(targets, "MEMBERS_A_PIECE", 0)
            patch.setattr(reconciliation, "AT_ONCE", 0)
            patch.setattr(protocol, "AT_ONCE", 0)
        for step in steps:
            world.do(step.action)
            world.pass_time(step.then_wait_ms)
            world.check_reload()
        world.pass_time(SETTLED_MS + SESSION_MS + 5_000)
        world.check_settled()
