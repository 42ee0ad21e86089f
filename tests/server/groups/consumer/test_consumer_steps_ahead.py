"""Steps of members with thousands of topics are made in pieces before the heartbeat, and used only if they are still valid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.server.coordination.jobs import Steps, to_the_end
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.consumer import reconciliation, targets
from ottla.server.groups.consumer.reconciliation import PreparedHeartbeat
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import FakeTopics

CALLER = Caller("c", "/host", 1)
Act = Callable[[ConsumerGroups], object]


def beat_of(member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **fields)


def nothing(_groups: ConsumerGroups) -> None:
    """Leave the group as it is."""


def its_own_step(groups: ConsumerGroups) -> None:
    groups.beat("a", 2)


def another_member_comes(groups: ConsumerGroups) -> None:
    groups.enter("c")


def it_is_gone(groups: ConsumerGroups) -> None:
    groups.beat("a", -1)


def another_one_leaves(groups: ConsumerGroups) -> None:
    groups.beat("b", -1)


def a_topic_goes(groups: ConsumerGroups) -> None:
    groups.delete_topic("bills")


BETWEEN: tuple[Act, ...] = (
    nothing,
    its_own_step,
    another_member_comes,
    it_is_gone,
    another_one_leaves,
    a_topic_goes,
)


def two_members() -> ConsumerGroups:
    """Return a group of two members, of which the first must give up half of its partitions."""
    groups = ConsumerGroups(orders=4, bills=2)
    groups.enter("a", "orders", "bills")
    groups.enter("b", "orders", "bills")
    return groups


def preparing(groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest) -> Steps[PreparedHeartbeat]:
    return groups.coordinator._consumer.preparing(groups.coordinator.shard_of("g"), request, CALLER)


def heard(groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, between: Act, *, is_prepared: bool) -> Any:
    """Return the answer to a heartbeat, or its error, with the written records and the group afterwards."""
    answer: Any
    if is_prepared:
        prepared = to_the_end(preparing(groups, request))
        assert prepared.step is not None
        between(groups)
        arguments: tuple[Any, ...] = (None, prepared)
    else:
        between(groups)
        arguments = ()
    try:
        answer = groups.coordinator._consumer.heartbeat(
            groups.coordinator.shard_of("g"), request, CALLER, groups.now_ms, *arguments
        )
    except Exception as error:  # noqa: BLE001 -- compared
        answer = repr(error)
    partition = groups.coordinator.partition_for("g")
    return answer, groups.store.records(partition), groups.described()


@pytest.mark.parametrize("between", BETWEEN)
def test_a_step_that_was_made_is_the_one_that_the_heartbeat_takes(
    between: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = heard(two_members(), beat_of("a", 2), between, is_prepared=False)
    monkeypatch.setattr(reconciliation, "AT_ONCE", 0)
    assert heard(two_members(), beat_of("a", 2), between, is_prepared=True) == plain


@pytest.mark.parametrize("between", [nothing, another_one_leaves, another_member_comes])
def test_what_is_free_only_later_is_not_given_by_a_step_that_was_made(
    between: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second member waits for partitions that the first gives up, while its step is made."""

    def given_up(groups: ConsumerGroups) -> None:
        between(groups)
        groups.beat("a", 2)
        groups.beat("a", 2, owns={"orders": [0, 1]})

    plain = heard(two_members(), beat_of("b", 3), given_up, is_prepared=False)
    monkeypatch.setattr(reconciliation, "AT_ONCE", 0)
    groups = two_members()
    request = beat_of("b", 3)
    prepared = to_the_end(preparing(groups, request))
    given_up(groups)
    try:
        answer: Any = groups.coordinator._consumer.heartbeat(
            groups.coordinator.shard_of("g"), request, CALLER, groups.now_ms, None, prepared
        )
    except Exception as error:  # noqa: BLE001 -- compared
        answer = repr(error)
    assert answer == plain[0]


def test_a_member_that_waits_for_others_writes_nothing_however_often_it_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A waiting member's step was an equal new member, and so was written: with thousands of topics, at each heartbeat."""
    monkeypatch.setattr(reconciliation, "AT_ONCE", 0)
    groups = two_members()
    groups.beat("b", 3)  # From now on its epoch is also its last one.
    written = groups.store.end_offset(groups.coordinator.partition_for("g"))
    for _ in range(3):
        assert groups.beat("b", 3).assignment is None
    assert groups.store.end_offset(groups.coordinator.partition_for("g")) == written


def of_many(count: int) -> tuple[ConsumerGroups, tuple[str, ...]]:
    """Return a member of `count` topics, whose target was made after its first heartbeat."""
    names = tuple(f"t{number}" for number in range(count))
    groups = ConsumerGroups(topics=FakeTopics(**dict.fromkeys(names, 1)))
    assert groups.given(groups.enter("a", *names)) == {}
    return groups, names


def test_one_piece_of_a_large_step_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test counts topics that are walked, sorted, written or sent: no piece handles all of them."""
    groups, names = of_many(targets.TOPICS_AT_ONCE + 1)
    request = beat_of("a", 1)
    steps, pieces = preparing(groups, request), 0
    try:
        while True:
            next(steps)
            pieces += 1
    except StopIteration as end:
        prepared = end.value
    assert pieces > 3 * len(names), "of its step, its record, and the answer"
    monkeypatch.setattr(reconciliation, "make_answer", None)  # it is not made again
    answer = groups.coordinator._consumer.heartbeat(
        groups.coordinator.shard_of("g"), request, CALLER, groups.now_ms, None, prepared
    )
    assert answer.assignment is prepared.step.told
    assert len(answer.assignment.topic_partitions) == len(names)
    assert groups.restarted().table().members == groups.table().members


def test_who_has_nothing_to_step_to_has_nothing_made() -> None:
    groups, _ = of_many(targets.TOPICS_AT_ONCE + 1)
    epoch = groups.beat("a", 1).member_epoch
    for request in beat_of("a", epoch), beat_of("a", -1), beat_of("b", epoch), beat_of("a", epoch + 1):
        assert to_the_end(preparing(groups, request)).step is None


def test_a_member_of_few_topics_is_given_them_at_once() -> None:
    names = tuple(f"t{number}" for number in range(targets.TOPICS_AT_ONCE))
    groups = ConsumerGroups(topics=FakeTopics(**dict.fromkeys(names, 1)))
    assert groups.given(groups.enter("a", *names)) == {name: {0} for name in names}
