"""Fifty consumers join, leave and crash at random for two minutes, in moved time: who owns what, and for how long nobody.

A real client acts on an answer at once and sends a heartbeat when one is due; so do these. A crash may leave partitions
without a living owner until the session of the crashed one has run out and the others have heard of it; its session
begins anew with a generation that still counts it as a member, since nobody's runs while the group waits for joins.
Coming and leaving may not.
"""

from __future__ import annotations

import random

import pytest

from ottla.server.groups.group import ClassicGroup
from support.consumers import PARTITIONS, SESSION_MS, Consumer
from support.groups import Groups

CONSUMERS = 50
TWO_MINUTES_MS = 120_000
TURN_MS = 100
HEARTBEAT_MS = 1_000
# A member that was told of a rebalance joins and syncs in the next turns; it is told with its next heartbeat.
HEARD_MS = 2 * HEARTBEAT_MS + 4 * TURN_MS


class Chaos:
    """A group of the classic protocol, the living consumers, and since when each partition has no living owner."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.groups = Groups()
        self.alive: list[Consumer] = []
        self.heartbeat_ms: dict[Consumer, int] = {}
        self.names = 0
        self.owner_of: dict[tuple[int, int], str] = {}
        self.owned_ms = dict.fromkeys(PARTITIONS, self.groups.now_ms)
        self.excused_ms = self.groups.now_ms
        self.generation = 0

    def come(self) -> None:
        self.names += 1
        # A static member that comes while its namesake lives takes its place.
        instance = f"s{self.rng.randrange(20)}" if self.rng.random() < 0.3 else None
        self.alive.append(Consumer(f"c{self.names}", instance))

    def go(self) -> None:
        going = self.alive.pop(self.rng.randrange(len(self.alive)))
        if self.rng.random() < 0.5 and going.member_id:
            going.leave(self.groups)
        else:
            self.excused_ms = self.groups.now_ms

    def disturb(self) -> None:
        """Somebody comes or goes; there are never more than fifty, and seldom few."""
        if self.rng.random() * CONSUMERS < len(self.alive) - CONSUMERS / 4:
            self.go()
        else:
            self.come()

    def pass_time(self, by_ms: int) -> None:
        end_ms = self.groups.now_ms + by_ms
        while self.groups.now_ms < end_ms:
            self.groups.advance(TURN_MS)
            for consumer in self.rng.sample(self.alive, len(self.alive)):
                self.act(consumer)
            self.alive = [consumer for consumer in self.alive if not consumer.is_fenced]
            self.check_owners()

    def act(self, consumer: Consumer) -> None:
        """Answers are taken at once, heartbeats go out in their interval."""
        now_ms = self.groups.now_ms
        if consumer.is_waiting or now_ms >= self.heartbeat_ms.get(consumer, 0):
            if not consumer.is_waiting:
                self.heartbeat_ms[consumer] = now_ms + HEARTBEAT_MS
            consumer.act(self.groups)

    def check_owners(self) -> None:
        """No partition has two owners in one generation, and none is without a living one for longer than a session."""
        now_ms = self.groups.now_ms
        for consumer in self.alive:
            for partition in consumer.owned:
                # A static member that came back owns under its new id what it owned under the old one.
                owner = consumer.instance or consumer.member_id
                assert self.owner_of.setdefault((consumer.generation, partition), owner) == owner
                self.owned_ms[partition] = now_ms
        group = self.groups.coordinator.shard_of("g").groups["g"]
        assert isinstance(group, ClassicGroup)
        if group.generation > self.generation:
            self.generation = group.generation
            if not group.members.keys() <= {consumer.member_id for consumer in self.alive}:
                self.excused_ms = now_ms
        for partition, owned_ms in self.owned_ms.items():
            without_ms = now_ms - max(owned_ms, self.excused_ms)
            assert without_ms <= SESSION_MS + HEARD_MS, f"nobody owns {partition}: {self.alive}"


@pytest.mark.parametrize("seed", range(4))
def test_two_minutes_of_fifty_consumers_that_come_leave_and_crash(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(CONSUMERS):
        chaos.come()
    end_ms = chaos.groups.now_ms + TWO_MINUTES_MS
    while chaos.groups.now_ms < end_ms:
        chaos.disturb()
        chaos.pass_time(chaos.rng.choice([100, 500, 1_000, 2_000, 5_000, 15_000]))
    assert chaos.generation > 8
