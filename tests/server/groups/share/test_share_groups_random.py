"""Share groups under random events.

Members come, go, fall silent and send invalid requests, and topics are created, grown and deleted. The share coordinator
answers late, refuses or fails, the log cannot be written for a while, and the broker restarts.

A model knows the members and their epochs. After each step it predicts the answer to each heartbeat, and a load finds the
content of the tables. In the end every partition has a member, and every member has its share.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import ceil

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from support.groups.share_groups import SESSION_MS, ShareGroups
from support.sizes import size

E = ErrorCode
STEPS = 120
MEMBERS = "abcdef"
TOPICS = ("orders", "bills", "late", "never")
GROUPS = ("g", "h")


class World:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        interval_ms = self.rng.choice([0, 1_000])
        self.groups = ShareGroups(
            orders=3, bills=1, settings={"group_share_assignment_interval_ms": interval_ms, "group_share_max_size": 4}
        )
        self.groups.grants = False
        self.epochs: dict[tuple[str, str], tuple[int, int]] = {}
        """The epoch and the one before, as last answered, of each member by (group, id)."""
        self.heard_ms: dict[tuple[str, str], int] = {}
        self.there: set[str] = set()
        """Groups that exist."""

    def step(self) -> None:
        deeds: list[tuple[int, Callable[[], None]]] = [
            (30, self.beat),
            (10, self.enter),
            (6, self.leave),
            (6, self.nonsense),
            (10, self.answer_wishes),
            (6, self.pass_time),
            (4, self.change_topics),
            (3, self.restart),
            (2, self.trouble),
        ]
        weights, acts = zip(*deeds, strict=True)
        self.rng.choices(acts, weights)[0]()
        self.check()

    def someone(self) -> tuple[str, str]:
        return self.rng.choice(GROUPS), self.rng.choice(MEMBERS)

    def names(self) -> list[str]:
        return self.rng.sample(TOPICS, self.rng.randint(1, 3))

    def send(self, group: str, member: str, epoch: int, names: list[str] | None) -> None:
        expected = self.expected(group, member, epoch, names)
        failing = self.groups.store.failure
        try:
            answer = self.groups.beat(member, epoch, topics=names, group=group)
        except KafkaError as error:
            assert error.code in (expected, failing), (group, member, epoch)
            return
        assert expected is E.NONE, (group, member, epoch, expected)
        key = group, member
        if epoch == -1:
            del self.epochs[key], self.heard_ms[key]
            return
        self.there.add(group)
        now, before = self.epochs.get(key, (0, -1))
        assert answer.member_epoch >= now
        self.epochs[key] = (now, before) if answer.member_epoch == now else (answer.member_epoch, now)
        self.heard_ms[key] = self.groups.elapsed_ms

    def expected(self, group: str, member: str, epoch: int, names: list[str] | None) -> ErrorCode:
        """Return the answer that the rules require for a heartbeat."""
        key = group, member
        if epoch < -1 or (epoch == 0 and not names):
            return E.INVALID_REQUEST
        if group not in self.there and epoch != 0:
            return E.GROUP_ID_NOT_FOUND
        size = sum(one == group for one, _ in self.epochs)
        if epoch != -1 and size >= 4 and key not in self.epochs:
            return E.GROUP_MAX_SIZE_REACHED
        if epoch == 0:
            return E.NONE
        if key not in self.epochs:
            return E.UNKNOWN_MEMBER_ID
        now, before = self.epochs[key]
        return E.NONE if epoch in (-1, now) or (epoch == before and epoch < now) else E.FENCED_MEMBER_EPOCH

    # Actions

    def beat(self) -> None:
        group, member = self.someone()
        epoch = self.epochs.get((group, member), (1, 0))[0]
        self.send(group, member, epoch, self.names() if self.rng.random() < 0.2 else None)

    def enter(self) -> None:
        group, member = self.someone()
        self.send(group, member, 0, self.names())

    def leave(self) -> None:
        group, member = self.someone()
        self.send(group, member, -1, None)

    def nonsense(self) -> None:
        group, member = self.someone()
        epoch = self.epochs.get((group, member), (1, 0))[0]
        self.send(group, member, epoch + self.rng.choice([-3, -2, -1, 1, 2, -epoch - 2]), None)

    def answer_wishes(self) -> None:
        persister = self.groups.persister
        persister.refuses = self.rng.choice([None, None, None, E.NOT_COORDINATOR])
        persister.fails = self.rng.choice([None, None, None, E.COORDINATOR_NOT_AVAILABLE])
        self.rng.shuffle(self.groups.wishes)
        store = self.groups.store
        failure = store.failure
        if self.rng.random() < 0.1:
            store.failure = E.COORDINATOR_NOT_AVAILABLE  # The answers cannot be persisted.
        self.groups.grant()
        store.failure = failure

    def pass_time(self) -> None:
        self.groups.advance(self.rng.choice([1, 1_000, 5_000, 31_000, SESSION_MS]))
        if self.groups.store.failure is None:
            self.forget_silent()

    def forget_silent(self) -> None:
        for key, heard_ms in tuple(self.heard_ms.items()):
            if self.groups.elapsed_ms - heard_ms >= SESSION_MS:
                del self.epochs[key], self.heard_ms[key]

    def change_topics(self) -> None:
        name = self.rng.choice(TOPICS[:3])
        topic_id = self.groups.topics.id_of(name)
        if topic_id is None:
            self.groups.put_topic(name, self.rng.randint(1, 4))
        elif self.rng.random() < 0.5:
            self.groups.put_topic(name, self.groups.topics.partition_count(topic_id) + 1, is_new=False)
        else:
            self.groups.delete_topic(name)

    def restart(self) -> None:
        self.groups = self.groups.restarted()
        self.groups.grants = False
        self.groups.wishes.clear()
        # From now on all members have a full session.
        self.heard_ms = dict.fromkeys(self.heard_ms, self.groups.elapsed_ms)

    def trouble(self) -> None:
        self.groups.store.failure = E.COORDINATOR_NOT_AVAILABLE
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice([self.beat, self.enter, self.leave, self.answer_wishes])()
        self.groups.store.failure = None

    # Invariants

    def check(self) -> None:
        tables = self.groups.copy_of_tables()
        members = {(group_id, member) for group_id, (*_, members, _, _) in tables.items() for member in members}
        assert members == self.epochs.keys()
        for group_id, (epoch, _, assignment_epoch, _, members_, targets, _) in tables.items():
            assert assignment_epoch <= epoch
            assert targets.keys() <= members_.keys()
            for member in members_.values():
                assert (member.epoch, member.previous_epoch) == self.epochs[group_id, member.member_id]
                assert member.epoch <= epoch
        loaded = ShareGroups(
            self.groups.store,
            elapsed_ms=self.groups.elapsed_ms,
            topics=self.groups.topics,
            settings=self.groups.settings,
        )
        assert loaded.copy_of_tables() == self.groups.copy_of_tables()

    def settle(self) -> None:
        """Let only heartbeats happen."""
        groups = self.groups
        groups.persister.refuses = groups.persister.fails = None
        groups.grants = True
        for _ in range(9):
            groups.grant()
            for group, member in sorted(self.epochs):
                self.send(group, member, self.epochs[group, member][0], None)
                groups.grant()
            groups.advance(8_000)  # four of them make up for a lost request
        for group_id in groups.copy_of_tables():
            self.check_parts(group_id)

    def check_parts(self, group_id: str) -> None:
        table = self.groups.table(group_id)
        topics = self.groups.topics
        for name in table.subscribed_topics:
            topic_id = topics.id_of(name)
            if topic_id is None:
                continue
            subscribers = [member for member in table.members.values() if name in member.topic_names]
            parts = [member.assigned.get(topic_id, frozenset()) for member in subscribers]
            everything = set(range(topics.partition_count(topic_id)))
            assert set().union(*parts) == everything
            if len(table.name_subscribers) > 1:
                sharing = ceil(len(subscribers) / len(everything))
                assert max(sum(index in part for part in parts) for index in everything) <= sharing
                assert all(parts)
        for member in table.members.values():
            assert member.epoch == table.epoch == table.assignment_epoch
            assert {topics.name_of(topic_id) for topic_id in member.assigned} <= member.topic_names
        if len(table.name_subscribers) == 1:
            sizes = [sum(map(len, member.assigned.values())) for member in table.members.values()]
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("seed", range(size(1, 12)))
def test_a_random_history(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
