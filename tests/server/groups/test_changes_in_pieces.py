"""Every kind of group, and each change of it, at several sizes: the longest piece is small, however large the group is.

Nothing is timed. The tests count the lines that the server runs in one piece, in a group of some thousand topics or partitions:
each iteration of a loop is at least one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pytest

from ottla import server
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.server.coordination.jobs import Steps, never, to_the_end
from ottla.server.groups.classic.protocol import Caller
from support.groups.classic_members import ClassicMember
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import FakeTopics, Groups
from support.groups.share_groups import ShareGroups
from support.groups.streams_groups import StreamsGroups, subtopology, topology
from support.sizes import size

CALLER = Caller("c", "/host", 1)
TOPICS = size(750, 2_000)
"""Length of each list of names; small enough for a fast test, a multiple of what one piece handles."""
_SERVER = str(Path(server.__file__ or "").parent)


def is_counted(code: CodeType) -> bool:
    name = code.co_filename
    # Messages between classic members are also read and written here.
    return name.startswith(_SERVER) or (name.startswith("<") and "ConsumerProtocol" not in name)


class Lines:
    """A counter of calls and lines, as a trace function. Its state is in variables, not attributes, for speed."""

    def __init__(self) -> None:
        count = 0
        known: dict[CodeType, bool] = {}

        def line(_frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal count
            if event == "line":
                count += 1
            return line

        def enter(frame: FrameType, _event: str, _argument: object) -> Any:
            nonlocal count
            code = frame.f_code
            if code not in known:
                known[code] = is_counted(code)
            if not known[code]:
                return None
            count += 1
            return line

        def taken() -> int:
            nonlocal count
            found, count = count, 0
            return found

        self.enter, self.taken = enter, taken


class Pieces:
    """A counter of the lines of the server, and of the code that writes messages, in the longest piece."""

    def __init__(self, *, are_counted: bool = True) -> None:
        self.most = 0
        self._lines = Lines() if are_counted else None

    def piece(self, call: Callable[[], Any]) -> Any:
        lines = self._lines
        if lines is None:
            return call()
        lines.taken()
        before = sys.gettrace()
        sys.settrace(lines.enter)
        try:
            return call()
        finally:
            sys.settrace(before)
            self.over()

    def over(self) -> bool:
        """Note the end of a piece."""
        if self._lines is not None:
            self.most = max(self.most, self._lines.taken())
        return True

    def steps(self, steps: Steps[Any]) -> Any:
        def all_of_them() -> Any:
            while True:
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value
                self.over()

        return self.piece(all_of_them)

    def jobs(self, groups: Groups) -> None:
        def all_of_them() -> None:
            while groups.coordinator._jobs:
                groups.coordinator._jobs.run(self.over)

        self.piece(all_of_them)

    def deadlines(self, groups: Groups, by_ms: int) -> None:
        groups.elapsed_ms += by_ms
        self.piece(lambda: groups.coordinator._deadlines.run_due(groups.now_ms, lambda: True))
        self.jobs(groups)


class InOnePiece(Pieces):
    """A context in which a request's preparation, and a whole job, run in one piece."""

    def steps(self, steps: Steps[Any]) -> Any:
        return self.piece(lambda: to_the_end(steps))

    def jobs(self, groups: Groups) -> None:
        if groups.coordinator._jobs:
            self.piece(lambda: groups.coordinator._jobs.run(never))


UNSEEN = InOnePiece(are_counted=False)


class Size(NamedTuple):
    topics: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.topics} topics of {self.partitions}"


SIZES = [Size(TOPICS, 1), Size(4, 1_250)]
NAMES = [f"t{number}" for number in range(3 * TOPICS)]
"""Names for three lists that differ."""


def beat(groups: ConsumerGroups, pieces: Pieces, member: str, epoch: int, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)
    shard = groups.coordinator.shard_for("g")
    answer = pieces.steps(groups.coordinator.consumer_heartbeat(shard, request, CALLER, lambda: groups.now_ms))
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
    """Return a group of one member, which has all of its topics; and its epoch."""
    groups, unseen = consumers(size), UNSEEN
    epoch = join(groups, unseen, "a", NAMES[: size.topics], **fields).member_epoch
    epoch = beat(groups, unseen, "a", epoch, instance_id=fields.get("instance_id"), topic_partitions=()).member_epoch
    assert len(groups.table().members["a"].assigned) == size.topics
    return groups, epoch


def differing(size: Size) -> ConsumerGroups:
    """Return three members, each with topics of its own."""
    groups, unseen = consumers(size, lists=3), UNSEEN
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
    pieces.steps(
        groups.coordinator.leave(
            groups.coordinator.shard_for("g"), "g", [MemberIdentity(member_id="m2")], groups.now_ms
        )
    )
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
    shard = groups.coordinator.shard_for("g")
    pieces.steps(groups.coordinator.share_heartbeat(shard, request, CALLER, lambda: groups.now_ms))
    pieces.jobs(groups)
    wishes, groups.wishes[:] = list(groups.wishes), []
    for wish in wishes:
        begun = groups.coordinator.note_share_states_initialized
        pieces.piece(partial(begun, wish.group_id, wish.partitions, groups.now_ms))


def share_stay(groups: ShareGroups, pieces: Pieces, member: str) -> None:
    share_beat(groups, pieces, member, groups.table().members[member].epoch)


def shared(size: Size, pieces: Pieces) -> ShareGroups:
    """Return a group of one member with all of its topics, at most as many as a share group may have states of."""
    topics = min(size.topics, 400)
    groups = ShareGroups(
        topics=FakeTopics(**dict.fromkeys(NAMES[:topics], 8 if size.topics > topics else size.partitions))
    )
    share_beat(groups, pieces, "a", 0, subscribed_topic_names=tuple(NAMES[:topics]))
    for _ in range(3):
        share_stay(groups, pieces, "a")
    assert len(groups.table().members["a"].assigned) == topics
    return groups


def sharing(size: Size, pieces: Pieces) -> ShareGroups:
    """Return three members, each with topics of its own."""
    groups = ShareGroups(topics=FakeTopics(**dict.fromkeys(NAMES[: 3 * size.topics], 1)))
    for number in range(3):
        mine = tuple(NAMES[number * size.topics : (number + 1) * size.topics])
        share_beat(groups, pieces, f"m{number}", 0, subscribed_topic_names=mine)
    return groups


def share_members_join(size: Size, pieces: Pieces) -> None:
    sharing(size, pieces)


def a_share_member_is_given_all(size: Size, pieces: Pieces) -> None:
    shared(size, pieces)


def a_second_share_member_joins(size: Size, pieces: Pieces) -> None:
    groups = shared(size, UNSEEN)
    share_beat(groups, pieces, "b", 0, subscribed_topic_names=tuple(groups.table().members["a"].topic_names))
    for _ in range(2):
        share_stay(groups, pieces, "a")
        share_stay(groups, pieces, "b")
    assert groups.table().members["b"].assigned


def a_share_member_leaves(size: Size, pieces: Pieces) -> None:
    share_beat(sharing(size, UNSEEN), pieces, "m2", -1)


def a_share_session_ends(size: Size, pieces: Pieces) -> None:
    pieces.deadlines(sharing(size, UNSEEN), 46_000)


def a_topic_of_a_share_group_comes(size: Size, pieces: Pieces) -> None:
    groups = shared(size, UNSEEN)
    groups.put_topic("t0", groups.topics.partition_count(groups.topics.id_of("t0") or b"") + 1)
    for _ in range(3):
        share_stay(groups, pieces, "a")


def streams_beat(groups: StreamsGroups, pieces: Pieces, member: str, epoch: int, **fields: Any) -> None:
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)
    shard = groups.coordinator.shard_for("g")
    pieces.steps(groups.coordinator.streams_heartbeat(shard, request, CALLER, lambda: groups.now_ms))
    pieces.jobs(groups)
    pieces.steps(groups.coordinator.streams_endpoints(shard, "g", member))


def streams_enter(groups: StreamsGroups, pieces: Pieces, size: Size, member: str) -> None:
    streams_beat(
        groups,
        pieces,
        member,
        0,
        topology=topology(subtopology("0", *NAMES[: size.topics])),
        process_id=member,
        rebalance_timeout_ms=10_000,
        client_tags=(),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )


def streams_stay(groups: StreamsGroups, pieces: Pieces, member: str) -> None:
    streams_beat(groups, pieces, member, groups.table().members[member].epoch)


def streaming(size: Size, pieces: Pieces) -> StreamsGroups:
    """Return a group of one member, which has all of its tasks."""
    groups = StreamsGroups(topics=FakeTopics(**dict.fromkeys(NAMES[: size.topics], size.partitions)))
    streams_enter(groups, pieces, size, "a")
    streams_stay(groups, pieces, "a")
    assert len(groups.table().members["a"].assigned.active["0"]) == size.partitions
    return groups


def a_streams_member_is_given_all(size: Size, pieces: Pieces) -> None:
    streaming(size, pieces)


def a_second_streams_member_joins(size: Size, pieces: Pieces) -> None:
    groups = streaming(size, UNSEEN)
    streams_enter(groups, pieces, size, "b")
    streams_stay(groups, pieces, "a")
    streams_stay(groups, pieces, "b")


def a_streams_member_leaves(size: Size, pieces: Pieces) -> None:
    streams_beat(streaming(size, UNSEEN), pieces, "a", -1)


def a_streams_session_ends(size: Size, pieces: Pieces) -> None:
    pieces.deadlines(streaming(size, UNSEEN), 46_000)


def a_topic_of_a_streams_group_grows(size: Size, pieces: Pieces) -> None:
    groups = streaming(size, UNSEEN)
    groups.grow_topic("t0", size.partitions + 1)
    for _ in range(2):
        streams_stay(groups, pieces, "a")


def classic(size: Size, pieces: Pieces) -> tuple[ConsumerGroups, list[ClassicMember]]:
    """Return three members of all topics."""
    groups = consumers(size)
    members = [
        ClassicMember(f"c{number}", topics=tuple(NAMES[: size.topics]), instance_id=f"i{number}") for number in range(3)
    ]
    act(groups, pieces, members)
    assert groups.state() == "Stable"
    return groups, members


def act(groups: ConsumerGroups, pieces: Pieces, members: list[ClassicMember]) -> None:
    for _ in range(8):
        for member in members:
            pieces.piece(partial(member.act, groups))
        pieces.deadlines(groups, 0)


def classic_members_join(size: Size, pieces: Pieces) -> None:
    classic(size, pieces)


def a_classic_member_comes_back(size: Size, pieces: Pieces) -> None:
    groups, members = classic(size, UNSEEN)
    again = ClassicMember("c0", topics=members[0].topics, instance_id="i0")
    act(groups, pieces, [again, *members[1:]])
    assert groups.state() == "Stable" and again.is_stable


def a_classic_member_is_removed(size: Size, pieces: Pieces) -> None:
    groups, members = classic(size, UNSEEN)
    one = MemberIdentity(member_id=members[0].member_id, group_instance_id="i0")
    pieces.steps(groups.coordinator.leave(groups.coordinator.shard_for("g"), "g", [one], groups.now_ms))
    act(groups, pieces, members[1:])


def classic_sessions_end(size: Size, pieces: Pieces) -> None:
    groups, _ = classic(size, UNSEEN)
    for _ in range(3):
        pieces.deadlines(groups, 61_000)
    assert groups.state() == "Empty"


WAYS: dict[Callable[[Size, Pieces], None], tuple[int, int]] = {
    classic_members_join: (21_500, 1_000),
    a_classic_member_comes_back: (21_500, 1_000),
    a_classic_member_is_removed: (21_500, 1_000),
    classic_sessions_end: (1_000, 1_000),
    is_given_all: (13_000, 10_000),
    a_second_one_comes_and_the_first_gives_up: (13_000, 7_000),
    leaves: (1_000, 1_000),
    its_session_ends: (1_000, 1_000),
    an_administrator_removes_it: (1_000, 1_000),
    leaves_for_a_while_and_comes_back: (13_000, 3_500),
    subscribes_by_expression: (13_000, 10_000),
    a_topic_comes: (5_500, 2_000),
    a_classic_group_becomes_a_consumer_group_and_back: (28_000, 9_000),
    share_members_join: (66_500, 4_000),
    a_share_member_is_given_all: (34_500, 3_000),
    a_second_share_member_joins: (13_000, 7_000),
    a_share_member_leaves: (1_000, 1_000),
    a_share_session_ends: (1_000, 1_000),
    a_topic_of_a_share_group_comes: (20_500, 13_500),
    a_streams_member_is_given_all: (18_500, 25_500),
    a_second_streams_member_joins: (3_000, 25_500),
    a_streams_member_leaves: (1_000, 10_500),
    a_streams_session_ends: (1_000, 10_500),
    a_topic_of_a_streams_group_grows: (13_500, 25_500),
}
"""Changes, each with the limit of lines in its longest piece, for groups of many topics and of many partitions.

The limit is a third above the actual number. It is higher if a few topics change at once, or the largest record of a share
group is made.
"""


@pytest.mark.parametrize("of", SIZES, ids=str)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_longest_piece_is_small(way: Callable[[Size, Pieces], None], of: Size) -> None:
    pieces = Pieces()
    way(of, pieces)
    assert 0 < pieces.most <= WAYS[way][SIZES.index(of)]


@pytest.mark.parametrize(
    "way",
    [
        is_given_all,
        a_second_one_comes_and_the_first_gives_up,
        leaves_for_a_while_and_comes_back,
        subscribes_by_expression,
        a_topic_comes,
        a_second_share_member_joins,
    ],
    ids=lambda way: way.__name__,
)
def test_what_is_done_in_one_piece_is_found(way: Callable[[Size, Pieces], None]) -> None:
    pieces = InOnePiece()
    way(SIZES[0], pieces)
    assert pieces.most > WAYS[way][0]
