"""ConsumerGroupHeartbeats that are refused: their reasons and codes, and that they leave nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.groups.settings import GROUP_NAMES_MAX, OWNED_MAX
from ottla.server.groups.subscription import NAMES_MAX
from support.groups.consumer_groups import ConsumerGroups
from support.noted import each_case

E = ErrorCode
JOIN: dict[str, Any] = {"owns": {}, "topics": ["orders"], "rebalance_timeout_ms": 1_000}


@each_case(
    "member, epoch, fields, message",
    [
        ("", 0, JOIN, "MemberId can't be empty."),
        ("", 1, {"version": 0}, "MemberId can't be empty."),
        ("", -1, {"version": 0}, "MemberId can't be empty."),
        ("a", 0, JOIN | {"group": ""}, "GroupId can't be empty."),
        ("a", 0, JOIN | {"instance_id": ""}, "InstanceId can't be empty."),
        ("a", 0, JOIN | {"rack_id": ""}, "RackId can't be empty."),
        ("a", 0, JOIN | {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ("a", 0, JOIN | {"owns": None}, "TopicPartitions must be empty when (re-)joining."),
        ("a", 0, JOIN | {"owns": {"orders": [0]}}, "TopicPartitions must be empty when (re-)joining."),
        (
            "a",
            0,
            JOIN | {"topics": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("a", -2, {}, "InstanceId can't be null."),
        ("a", -3, {}, "MemberEpoch -3 is invalid."),
    ],
)
def test_a_malformed_request_is_refused(member: str, epoch: int, fields: Any, message: str) -> None:
    groups = ConsumerGroups(orders=2)
    assert groups.error(member, epoch, **fields) == (E.INVALID_REQUEST, message)
    assert groups.store.records(groups.coordinator.partition_for("g")) == []


MANY = [f"t{number}" for number in range(NAMES_MAX + 1)]


def test_the_number_of_topics_a_member_names_is_limited() -> None:
    groups = ConsumerGroups(orders=2)
    assert groups.error("a", 0, **JOIN | {"topics": MANY}) == (
        E.INVALID_REQUEST,
        "Too many subscribed topics in the request (10001, limit 10000).",
    )
    epoch = groups.beat("a", 0, **JOIN | {"topics": MANY[1:]}).member_epoch
    assert groups.error("a", epoch, owns={"orders": range(OWNED_MAX + 1)})[0] is E.INVALID_REQUEST
    assert not groups.beat("a", epoch, owns={"orders": range(2)}).error_code


def test_the_number_of_topics_a_groups_members_name_is_limited() -> None:
    groups = ConsumerGroups(orders=2)
    lists = [[*MANY[2:], f"of{number}"] for number in range(1, GROUP_NAMES_MAX // NAMES_MAX + 2)]
    for number, topics in enumerate(lists):
        groups.enter(f"same{number}", topics=lists[0])
        if number < GROUP_NAMES_MAX // NAMES_MAX:
            groups.enter(f"other{number}", topics=topics)
        else:
            assert groups.enter_error(f"other{number}", topics=topics) is E.GROUP_MAX_SIZE_REACHED


def test_an_assignor_must_be_a_configured_one() -> None:
    groups = ConsumerGroups(orders=2, settings={"group_consumer_assignors": ("range",)})
    assert groups.error("a", 0, **JOIN, server_assignor="uniform") == (
        E.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor uniform is not supported. Supported assignors: range.",
    )
    assert not groups.enter("a", server_assignor="range").error_code


def test_a_regular_expression_must_be_valid() -> None:
    groups = ConsumerGroups(orders=2)
    code, message = groups.error("a", 0, **JOIN, subscribed_topic_regex="(")
    assert code is E.INVALID_REGULAR_EXPRESSION
    assert "`(`" in message
    assert groups.store.records(groups.coordinator.partition_for("g")) == []


@pytest.mark.parametrize(
    "member, epoch, expected",
    [
        ("a", 1, (E.GROUP_ID_NOT_FOUND, "Consumer group g not found.")),
        ("a", -1, (E.GROUP_ID_NOT_FOUND, "Group g not found.")),
    ],
)
def test_only_a_join_creates_a_group(member: str, epoch: int, expected: object) -> None:
    groups = ConsumerGroups(orders=2)
    assert groups.error(member, epoch) == expected
    assert groups.list_groups(range(4), (), ()) == []


def test_an_unknown_member_is_refused() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    unknown = (E.UNKNOWN_MEMBER_ID, "Member b is not a member of group g.")
    assert groups.error("b", 2) == unknown
    assert groups.error("b", -1) == unknown


def test_in_version_0_the_broker_generates_the_member_id() -> None:
    groups = ConsumerGroups(orders=2)
    answer = groups.enter("", version=0)
    assert answer.member_id == "1"
    assert not groups.beat("1", answer.member_epoch, version=0).error_code


def test_the_number_of_members_of_a_group_is_limited() -> None:
    groups = ConsumerGroups(orders=2, settings={"group_consumer_max_size": 2})
    groups.enter("a")
    groups.enter("b")
    assert raised_message(groups, "c") == "The consumer group has reached its maximum capacity of 2 members."
    assert groups.enter_error("c") is E.GROUP_MAX_SIZE_REACHED
    assert groups.enter_error("a") is E.NONE, "who is in may join again"
    groups.beat("b", -1)
    assert groups.enter_error("c", instance_id="i") is E.NONE
    groups.beat("c", -2, instance_id="i")
    assert groups.enter_error("d", instance_id="j") is E.GROUP_MAX_SIZE_REACHED
    assert groups.enter_error("d", instance_id="i") is E.NONE, "it takes the place of the static member"


def raised_message(groups: ConsumerGroups, member: str) -> str:
    return groups.error(member, 0, **JOIN)[1]


class TestEpochs:
    """A member with an epoch other than the group's is fenced, unless only the broker's last answer was lost."""

    def groups(self) -> ConsumerGroups:
        """Return a group whose member "a" went from epoch 2, with all four partitions, to epoch 3, with two."""
        groups = ConsumerGroups(orders=4)
        groups.enter("a")
        groups.enter("b")
        groups.beat("a", 2)
        groups.beat("a", 2, owns={"orders": [0, 1]})
        assert groups.table().members["a"].epoch == 3
        return groups

    @pytest.mark.parametrize(
        "epoch, owns, is_fenced",
        [
            (3, None, False),
            (3, {"orders": [0, 1]}, False),
            (2, {"orders": [0, 1]}, False),
            (2, {"orders": [0]}, False),
            (2, {}, False),
            (2, None, True),
            (2, {"orders": [0, 1, 2]}, True),
            (2, {"gone": [0]}, True),
            (1, {}, True),
            (4, {"orders": [0, 1]}, True),
        ],
    )
    def test_an_epoch_is_accepted_or_fenced(self, epoch: int, owns: Any, is_fenced: bool) -> None:
        groups = self.groups()
        code, message = groups.error("a", epoch, owns=owns)
        assert code is (E.FENCED_MEMBER_EPOCH if is_fenced else E.NONE)
        if is_fenced:
            assert f"member epoch ({epoch}) than the one known by the group coordinator (3)" in message
            assert ("greater" if epoch > 3 else "smaller") in message

    def test_a_late_member_receives_its_assignment_again(self) -> None:
        answer = self.groups().beat("a", 2, owns={"orders": [0, 1]})
        assert answer.member_epoch == 3

    def test_a_member_may_rejoin_at_any_time(self) -> None:
        groups = self.groups()
        answer = groups.enter("a")
        assert answer.member_epoch == 3
        assert groups.given(answer) == {"orders": {0, 1}}
