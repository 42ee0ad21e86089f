"""Each way in which a group changes, over sizes: the longest piece is small beside the whole.

Nothing is timed. Counted are the functions that are called in one piece, in Python and in C, in a group of some thousand topics or
partitions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import pytest

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.server.coordination.jobs import Steps
from ottla.server.groups.classic.protocol import Caller
from support.groups.classic_members import ClassicMember
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import FakeTopics
from support.groups.share_groups import ShareGroups

CALLER = Caller("c", "/host", 1)
TOPICS = 2_000
"""Of each list of names; small enough for a fast test, four times what is gone through at once."""


PIECE_MAX = 1_500


class Pieces:
    """Counts what is called in the longest piece."""

    def __init__(self) -> None:
        self.most = 0
        self._calls = 0

    def piece(self, call: Callable[[], Any]) -> Any:
        self._calls = 0
        sys.setprofile(self._note)
        try:
            return call()
        finally:
            sys.setprofile(None)
            self.most = max(self.most, self._calls)

    def steps(self, steps: Steps[Any]) -> Any:
        while True:
            try:
                self.piece(lambda: next(steps))
            except StopIteration as end:
                return end.value

    def jobs(self, groups: ConsumerGroups | ShareGroups) -> None:
        while groups.coordinator._jobs:
            self.piece(lambda: groups.coordinator._jobs.run(lambda: True))

    def deadlines(self, groups: ConsumerGroups | ShareGroups, by_ms: int) -> None:
        groups.elapsed_ms += by_ms
        self.piece(lambda: groups.coordinator._deadlines.run_due(groups.now_ms, lambda: True))
        self.jobs(groups)

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self._calls += event.endswith("call")


class Size(NamedTuple):
    topics: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.topics} topics of {self.partitions}"


SIZES = [Size(TOPICS, 1), Size(4, 5_000)]
NAMES = [f"t{number}" for number in range(3 * TOPICS)]
"""Enough for three lists that differ."""


def beat(groups: ConsumerGroups, pieces: Pieces, member: str, epoch: int, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)
    prepared = pieces.steps(groups.coordinator.prepare_consumer(request, CALLER))
    upgrade = pieces.steps(groups.coordinator.prepare_upgrade(request, CALLER))
    answer = pieces.piece(
        lambda: groups.coordinator.consumer_heartbeat(request, CALLER, groups.now_ms, upgrade, prepared)
    )
    pieces.jobs(groups)
    return answer


def join(groups: ConsumerGroups, pieces: Pieces, member: str, names: list[str] | None, **fields: Any) -> Any:
    named = {} if names is None else {"subscribed_topic_names": tuple(names)}
    return beat(groups, pieces, member, 0, rebalance_timeout_ms=10_000, topic_partitions=(), **named, **fields)


def consumers(size: Size, *, lists: int = 1) -> ConsumerGroups:
    names = NAMES[: lists * size.topics]
    groups = ConsumerGroups(topics=FakeTopics(**dict.fromkeys(names, size.partitions)))
    groups.works_at_once = False
    return groups


def held(size: Size, **fields: Any) -> tuple[ConsumerGroups, int]:
    """A group of one member, which has all of its topics; and its epoch."""
    groups, unseen = consumers(size), Pieces()
    epoch = join(groups, unseen, "a", NAMES[: size.topics], **fields).member_epoch
    epoch = beat(groups, unseen, "a", epoch, instance_id=fields.get("instance_id"), topic_partitions=()).member_epoch
    assert len(groups.table().members["a"].assigned) == size.topics
    return groups, epoch


def differing(size: Size) -> ConsumerGroups:
    """Three members, each of topics of its own."""
    groups, unseen = consumers(size, lists=3), Pieces()
    for number in range(3):
        join(groups, unseen, f"m{number}", NAMES[number * size.topics : (number + 1) * size.topics])
    return groups


def is_given_all(size: Size, pieces: Pieces) -> None:
    groups = consumers(size)
    epoch = join(groups, pieces, "a", NAMES[: size.topics]).member_epoch
    beat(groups, pieces, "a", epoch, topic_partitions=())


def a_second_one_comes_and_the_first_gives_up(size: Size, pieces: Pieces) -> None:
    groups, epoch = held(size)
    join(groups, pieces, "b", NAMES[: size.topics])
    beat(groups, pieces, "a", epoch)


def leaves(size: Size, pieces: Pieces) -> None:
    beat(differing(size), pieces, "m2", -1)


def its_session_ends(size: Size, pieces: Pieces) -> None:
    groups = differing(size)
    pieces.deadlines(groups, 46_000)
    assert len(groups.table().members) == 2


def an_administrator_removes_it(size: Size, pieces: Pieces) -> None:
    groups = differing(size)
    pieces.steps(groups.coordinator.leave("g", [MemberIdentity(member_id="m2")], groups.now_ms))
    assert len(groups.table().members) == 2


def leaves_for_a_while_and_comes_back(size: Size, pieces: Pieces) -> None:
    groups, _ = held(size, instance_id="i")
    beat(groups, pieces, "a", -2, instance_id="i")
    join(groups, pieces, "b", NAMES[: size.topics], instance_id="i")
    assert len(groups.table().members["b"].assigned) == size.topics


def subscribes_by_expression(size: Size, pieces: Pieces) -> None:
    groups = consumers(size)
    join(groups, pieces, "a", None, subscribed_topic_regex="t.*")
    epoch = beat(groups, pieces, "a", groups.table().members["a"].epoch).member_epoch
    beat(groups, pieces, "a", epoch, topic_partitions=())
    assert len(groups.table().members["a"].assigned) == size.topics


def a_topic_comes(size: Size, pieces: Pieces) -> None:
    groups, epoch = held(size)
    groups.create_topic("t0", size.partitions + 1)
    beat(groups, pieces, "a", epoch)


def a_classic_group_becomes_a_consumer_group_and_back(size: Size, pieces: Pieces) -> None:
    groups = consumers(size)
    members = [ClassicMember(f"c{number}", topics=tuple(NAMES[: size.topics])) for number in range(3)]
    for _ in range(8):
        for member in members:
            member.act(groups)
        groups.advance(0)
    join(groups, pieces, "a", NAMES[: size.topics])
    assert len(groups.table().members) == 4
    beat(groups, pieces, "a", -1)
    assert groups.state() != "Dead", "it is a classic group again"


def share_beat(groups: ShareGroups, pieces: Pieces, member: str, epoch: int, **fields: Any) -> None:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)
    ready = pieces.steps(groups.coordinator.prepare_share(request, CALLER))
    pieces.piece(lambda: groups.coordinator.share_heartbeat(request, CALLER, groups.now_ms, ready))
    pieces.jobs(groups)


def sharing(size: Size, pieces: Pieces) -> ShareGroups:
    names = NAMES[: 3 * size.topics]
    groups = ShareGroups(topics=FakeTopics(**dict.fromkeys(names, 1)))
    for number in range(3):
        mine = tuple(names[number * size.topics : (number + 1) * size.topics])
        share_beat(groups, pieces, f"m{number}", 0, subscribed_topic_names=mine)
    return groups


def a_share_member_leaves(size: Size, pieces: Pieces) -> None:
    share_beat(sharing(size, pieces), pieces, "m2", -1)


def a_share_session_ends(size: Size, pieces: Pieces) -> None:
    pieces.deadlines(sharing(size, Pieces()), 46_000)


WAYS: dict[Callable[[Size, Pieces], None], tuple[float, float]] = {
    is_given_all: (5, 0.5),
    a_second_one_comes_and_the_first_gives_up: (9.5, 0.5),
    leaves: (0, 0),
    its_session_ends: (0, 0),
    an_administrator_removes_it: (0, 0),
    leaves_for_a_while_and_comes_back: (16, 0.25),
    subscribes_by_expression: (5, 0.5),
    a_topic_comes: (1.5, 0),
    a_classic_group_becomes_a_consumer_group_and_back: (11.5, 0.7),
    a_share_member_leaves: (21, 0),
    a_share_session_ends: (0, 0),
}
"""And what its longest piece may call for each topic, and for each partition, beside PIECE_MAX. The records of a member, which take some
twenty calls a topic each, are never made in it."""


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_longest_piece_is_small(way: Callable[[Size, Pieces], None], size: Size) -> None:
    pieces = Pieces()
    way(size, pieces)
    a_topic, a_partition = WAYS[way]
    assert pieces.most <= PIECE_MAX + a_topic * size.topics + a_partition * size.topics * size.partitions
