"""Consumers that come, leave, crash and return at random, through broker restarts and under a stepped wall clock.

The invariants of any group must hold.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.server.groups.classic import rebalance
from ottla.server.groups.classic.group import ClassicGroup, ClassicState
from support.broker.steppable_wall import WALL_STEPS_MS
from support.groups.consumers import PARTITIONS, REBALANCE_MS, SESSION_MS, Consumer
from support.groups.groups import Groups
from support.sizes import size

HEARTBEAT_MS = 1_000
# From the last disturbance until every partition has an owner: a crash is seen after the session time; the others learn
# of it with their next heartbeat; two more rounds are join and sync. A member id that was never used (KIP-394) is
# waited for as long as a session.
SETTLED_MS = 2 * SESSION_MS + 6 * HEARTBEAT_MS


class World:
    """A group, its living consumers, and the owners of partitions by generation."""

    def __init__(self, rng: random.Random, **settings_of_group: int) -> None:
        self.rng = rng
        self.settings = settings_of_group
        self.groups = Groups(**settings_of_group)  # type: ignore[arg-type]
        self.alive: list[Consumer] = []
        self.owners: dict[tuple[int, int], str] = {}
        self.names = 0
        self.disturbed_ms = self.groups.elapsed_ms
        self.let_in_between()

    def do(self, action: str) -> None:
        """Do one disturbance; setting the wall clock does not count as one."""
        if action in WALL_STEPS_MS:
            self.groups.set_wall(WALL_STEPS_MS[action])
            return
        self.disturbed_ms = self.groups.elapsed_ms
        match action:
            case "come" if len(self.alive) < 12:
                self.names += 1
                self.alive.append(Consumer(f"c{self.names}"))
            case "come static" if len(self.alive) < 12:
                instance = f"s{self.rng.randrange(4)}"
                self.names += 1
                self.alive.append(Consumer(f"c{self.names}", instance))
            case "crash" if self.alive:
                self.alive.remove(self.rng.choice(self.alive))
            case "leave" if self.alive:
                leaving = self.rng.choice(self.alive)
                self.alive.remove(leaving)
                leaving.leave(self.groups)
            case "restart":
                self.groups = self.groups.restarted(**self.settings)
                self.let_in_between()
                for consumer in self.alive:
                    consumer.disconnected()

    def let_in_between(self) -> None:
        """Let consumers act at random between the pieces of due work."""
        self.groups.is_over = lambda: self.rng.random() < 0.4
        self.groups.between = self.act_in_between

    def act_in_between(self) -> None:
        if self.alive and self.rng.random() < 0.3:
            consumer = self.rng.choice(self.alive)
            consumer.act(self.groups)
            self.check_owner(consumer)

    def pass_time(self, by_ms: int) -> None:
        """Let every consumer act once per heartbeat interval, in any order."""
        end_ms = self.groups.elapsed_ms + by_ms
        while self.groups.elapsed_ms < end_ms:
            self.groups.advance(min(HEARTBEAT_MS, end_ms - self.groups.elapsed_ms))
            self.rng.shuffle(self.alive)
            for consumer in tuple(self.alive):
                consumer.act(self.groups)
                self.check_owner(consumer)
            self.groups.advance(0)
            self.alive = [consumer for consumer in self.alive if not consumer.is_fenced]
            self.check_tables()
            if self.groups.elapsed_ms - self.disturbed_ms >= SETTLED_MS and self.alive:
                self.check_settled()

    def check_owner(self, consumer: Consumer) -> None:
        """Check that no partition has two owners in one generation."""
        for partition in consumer.owned:
            # A static member that came back owns under its new id what it owned under the old one.
            owner = consumer.instance or consumer.member_id
            assert self.owners.setdefault((consumer.generation, partition), owner) == owner

    def check_settled(self) -> None:
        """Check that every partition has exactly one living owner, and that all agree on the generation."""
        assert sorted(partition for consumer in self.alive for partition in consumer.owned) == list(PARTITIONS)
        assert len({consumer.generation for consumer in self.alive}) == 1

    def check_tables(self) -> None:
        group = self.groups.coordinator.shard_of("g").groups.get("g")
        if isinstance(group, ClassicGroup):
            check_tables(group)


def check_tables(group: ClassicGroup) -> None:
    """Check that the tables of a group agree with each other."""
    members = group.members
    assert all(member.member_id == member_id for member_id, member in members.items())
    assert group.awaiting_join_count == sum(member.join_reply is not None for member in members.values())
    assert group.static_members == {
        member.group_instance_id: member.member_id for member in members.values() if member.group_instance_id
    }
    assert group.leader in members if members else group.leader is None
    assert group.pending_sync <= set(members)
    assert not members.keys() & group.pending.keys()
    parked_joins = [member for member in members.values() if member.join_reply is not None]
    parked_syncs = [member for member in members.values() if member.sync_reply is not None]
    match group.state:
        case ClassicState.EMPTY:
            assert not members
        case ClassicState.PREPARING_REBALANCE:
            assert not parked_syncs
            assert group.rejoin.due_ms is not None
        case ClassicState.COMPLETING_REBALANCE:
            assert members
            assert not parked_joins
            assert group.sync_by.due_ms is not None
        case ClassicState.STABLE:
            assert members
            assert not parked_joins
            assert not parked_syncs
    for member in members.values():
        assert member.session.due_ms is not None or member.awaits_rebalance


class Step(NamedTuple):
    action: str
    then_wait_ms: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["come", "come", "come static", "crash", "leave", "restart", "nothing", *WALL_STEPS_MS]),
        st.sampled_from([0, 300, 1_000, 4_000, SESSION_MS, SETTLED_MS + 3_000]),
    ),
    max_size=25,
)


@settings(max_examples=size(25, 80))
@given(STEPS, st.integers(0, 2**32 - 1), st.sampled_from([0, 3_000]), st.booleans())
def test_no_partition_has_two_owners_and_none_is_left_without(
    steps: list[Step], seed: int, delay_ms: int, is_large: bool
) -> None:
    world = World(random.Random(seed), group_initial_rebalance_delay_ms=delay_ms)
    with pytest.MonkeyPatch.context() as patch:
        if is_large:
            # The members of a large group are notified in pieces.
            patch.setattr(rebalance, "MEMBERS_A_PIECE", 0)
        for step in steps:
            world.do(step.action)
            world.pass_time(step.then_wait_ms)
        world.pass_time(SETTLED_MS + REBALANCE_MS)
