"""Fifty consumers join, leave and crash at random for a minute or two, in moved time: their assignments, and partitions without
an owner.

A real client acts on an answer at once and sends a heartbeat when one is due; so do these. A crash may leave partitions
without a living owner until the session of the crashed member has expired and the others know of it. Joins and leaves
may not.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from ottla.server.groups.classic import rebalance
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.consumer import targets
from support.broker.steppable_wall import WALL_STEPS_MS
from support.groups.consumer_groups import ConsumerGroups, ConsumerMember
from support.groups.consumers import PARTITIONS, SESSION_MS, Consumer
from support.groups.groups import Groups
from support.sizes import size

CONSUMERS = 50
LIFE_MS = size(60_000, 120_000)
LIVES = size([(False, 0), (True, 1)], [(is_large, seed) for is_large in (False, True) for seed in (0, 1)])
TURN_MS = 100
HEARTBEAT_MS = 1_000
# A member learns of a change with its next heartbeat, and reacts to it within another one and some turns.
HEARD_MS = 2 * HEARTBEAT_MS + 4 * TURN_MS


class Chaos:
    """Consumers that come and go, and the time since when each partition has no living owner."""

    groups: Groups

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.alive: list[Any] = []
        self.names = 0
        self.heartbeat_ms: dict[Hashable, int] = {}
        self.owned_ms = dict.fromkeys(PARTITIONS, self.groups.elapsed_ms)
        self.excused_ms = self.groups.elapsed_ms
        """The time at which the session of a crashed member began to run out."""

    def run(self) -> None:
        for _ in range(CONSUMERS):
            self.come()
        end_ms = self.groups.elapsed_ms + LIFE_MS
        while self.groups.elapsed_ms < end_ms:
            # Never more than fifty, and seldom few.
            if self.rng.random() * CONSUMERS < len(self.alive) - CONSUMERS / 4:
                self.go()
            else:
                self.come()
            if self.rng.random() < 0.1:
                self.groups.set_wall(self.rng.choice([*WALL_STEPS_MS.values()]))
            self.pass_time(self.rng.choice([100, 500, 1_000, 2_000, 5_000, 15_000]))

    def pass_time(self, by_ms: int) -> None:
        end_ms = self.groups.elapsed_ms + by_ms
        while self.groups.elapsed_ms < end_ms:
            self.groups.advance(TURN_MS)
            for consumer in self.rng.sample(self.alive, len(self.alive)):
                self.act(consumer)
            self.check_owners()

    def come(self) -> None:
        self.names += 1
        # A static member that joins while its namesake is alive takes its place, or is refused.
        self.alive.append(self.consumer(f"s{self.rng.randrange(20)}" if self.rng.random() < 0.3 else None))

    def go(self) -> None:
        going = self.alive.pop(self.rng.randrange(len(self.alive)))
        if self.rng.random() < 0.5 and self.can_leave(going):
            going.leave(self.groups)
        else:
            self.excused_ms = self.groups.elapsed_ms

    def heartbeat_is_due(self, consumer: Hashable) -> bool:
        is_due = self.groups.elapsed_ms >= self.heartbeat_ms.get(consumer, 0)
        if is_due:
            self.heartbeat_ms[consumer] = self.groups.elapsed_ms + HEARTBEAT_MS
        return is_due

    def act_in_between(self) -> None:
        """Let a consumer act between any two pieces of a large group's notification."""
        self.groups.is_over = lambda: True
        self.groups.between = lambda: self.act(self.rng.choice(self.alive)) if self.alive else None

    def owned(self, partitions: Iterable[int]) -> None:
        """Note that these partitions have a living owner now."""
        self.owned_ms.update(dict.fromkeys(partitions, self.groups.elapsed_ms))

    def check_all_are_owned(self) -> None:
        for partition, owned_ms in self.owned_ms.items():
            without_ms = self.groups.elapsed_ms - max(owned_ms, self.excused_ms)
            assert without_ms <= SESSION_MS + HEARD_MS, f"nobody owns {partition}: {self.alive}"

    def consumer(self, instance: str | None) -> Any:
        raise NotImplementedError

    def can_leave(self, consumer: Any) -> bool:
        raise NotImplementedError

    def act(self, consumer: Any) -> None:
        raise NotImplementedError

    def check_owners(self) -> None:
        raise NotImplementedError


class ClassicChaos(Chaos):
    """A test of classic groups: no partition has two owners in one generation.

    No session runs while the group waits for joins, so the session of a crashed member starts again with a generation that
    still counts it as a member.
    """

    def __init__(self, seed: int) -> None:
        self.groups = Groups()
        super().__init__(seed)
        self.owner_of: dict[tuple[int, int], str] = {}
        self.generation = 0

    def consumer(self, instance: str | None) -> Consumer:
        return Consumer(f"c{self.names}", instance)

    def can_leave(self, consumer: Consumer) -> bool:
        return bool(consumer.member_id)

    def act(self, consumer: Consumer) -> None:
        if consumer.is_waiting or self.heartbeat_is_due(consumer):
            consumer.act(self.groups)
        if consumer.is_fenced:
            self.alive.remove(consumer)

    def check_owners(self) -> None:
        for consumer in self.alive:
            for partition in consumer.owned:
                # A static member that came back owns under its new id what it owned under the old one.
                owner = consumer.instance or consumer.member_id
                assert self.owner_of.setdefault((consumer.generation, partition), owner) == owner
            self.owned(consumer.owned)
        group = self.groups.coordinator.shard_of("g").groups["g"]
        assert isinstance(group, ClassicGroup)
        if group.generation > self.generation:
            self.generation = group.generation
            if not group.members.keys() <= {consumer.member_id for consumer in self.alive}:
                self.excused_ms = self.groups.elapsed_ms
        self.check_all_are_owned()


class ConsumerChaos(Chaos):
    """A test of consumer groups: no partition has two living owners at any moment."""

    groups: ConsumerGroups

    def __init__(self, seed: int) -> None:
        settings = {"group_consumer_session_timeout_ms": SESSION_MS}
        self.groups = ConsumerGroups(orders=len(PARTITIONS), settings=settings)
        super().__init__(seed)

    def consumer(self, instance: str | None) -> ConsumerMember:
        return ConsumerMember(f"c{self.names}", instance_id=instance)

    def can_leave(self, consumer: ConsumerMember) -> bool:
        return True

    def act(self, consumer: ConsumerMember) -> None:
        if self.heartbeat_is_due(consumer):
            owned = consumer.owned
            consumer.act(self.groups)
            if consumer.owned != owned:
                self.check_none_is_owned_twice()

    def check_none_is_owned_twice(self) -> None:
        owned = [partition for consumer in self.alive for _, partition in consumer.owned]
        assert len(owned) == len(set(owned)), f"owned twice: {self.alive}"
        self.owned(owned)

    def check_owners(self) -> None:
        self.check_none_is_owned_twice()
        self.check_all_are_owned()


@pytest.mark.parametrize(("is_large", "seed"), LIVES)
def test_fifty_consumers_of_the_classic_protocol_join_and_leave(
    is_large: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = ClassicChaos(seed)
    if is_large:
        monkeypatch.setattr(rebalance, "MEMBERS_A_PIECE", 0)
        chaos.act_in_between()
    chaos.run()
    assert chaos.generation > size(4, 8)


@pytest.mark.parametrize(("is_large", "seed"), LIVES)
def test_fifty_consumers_of_the_consumer_protocol_join_and_leave(
    is_large: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chaos = ConsumerChaos(seed)
    if is_large:
        monkeypatch.setattr(targets, "MEMBERS_A_PIECE", 0)
        chaos.act_in_between()
    chaos.run()
    assert chaos.groups.table().epoch > CONSUMERS
