"""Consumer groups as administrators see them: described, listed, deleted, expired; and next to classic groups."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ottla.server.coordination.jobs import to_the_end
from support.groups.consumer_groups import ConsumerGroups, raised

E = ErrorCode
DAY_MS = 86_400_000


def assignment(groups: ConsumerGroups, *partitions: int) -> Assignment:
    if not partitions:
        return Assignment()
    topic_id = groups.topics.id_of("orders") or b""
    one = TopicPartitions(topic_id=topic_id, topic_name="orders", partitions=partitions)
    return Assignment(topic_partitions=(one,))


def test_a_group_is_described_in_all_its_fields() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a", instance_id="i", rack_id="north", client="app")
    groups.enter("b", subscribed_topic_regex="ord.*")
    groups.advance(20_000)
    groups.beat("b", 2)
    groups.beat("a", 2, instance_id="i")
    assert groups.described() == DescribedGroup(
        group_id="g",
        group_state="Reconciling",
        group_epoch=3,
        assignment_epoch=3,
        assignor_name="uniform",
        members=(
            Member(
                member_id="a",
                instance_id="i",
                rack_id="north",
                member_epoch=2,
                client_id="c",
                client_host="/host",
                subscribed_topic_names=("orders",),
                subscribed_topic_regex="",
                # Partitions that it must still give up are its own.
                assignment=assignment(groups, 0, 1, 2, 3),
                target_assignment=assignment(groups, 0, 1),
                member_type=1,
            ),
            Member(
                member_id="b",
                member_epoch=3,
                client_id="c",
                client_host="/host",
                subscribed_topic_regex="ord.*",
                assignment=assignment(groups),
                target_assignment=assignment(groups, 2, 3),
                member_type=1,
            ),
        ),
    )


def test_deleted_topics_are_not_described() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.topics.delete("orders")
    member = groups.described().members[0]
    assert (member.assignment, member.target_assignment) == (
        Assignment(),
        Assignment(),
    )


def test_a_group_is_described_in_its_initial_state_in_pieces() -> None:
    groups = ConsumerGroups(orders=2, bills=2)
    for member in ("a", "b", "c"):
        groups.enter(member)
    before = groups.described()
    steps = groups.coordinator.describe_consumer_group("g")
    pieces = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == before
            break
        pieces += 1
        if pieces == 2:
            groups.beat("a", -1)
            groups.enter("d")
    assert pieces > len(before.members)
    assert groups.described() != before


def both_kinds() -> ConsumerGroups:
    """Return a consumer group "new", a classic group "old", and "simple", which is classic because it has no members."""
    groups = ConsumerGroups(orders=2)
    groups.enter("a", group="new")
    groups.stable(1, group="old")
    groups.commit({("orders", 0): 1}, group="simple")
    return groups


@pytest.mark.parametrize(
    "states, types, expected",
    [
        ((), (), {"new", "old", "simple"}),
        ((), ("consumer",), {"new"}),
        ((), ("Classic",), {"old", "simple"}),
        ((), ("classic", "CONSUMER"), {"new", "old", "simple"}),
        ((), ("share",), set()),
        (("stable",), (), {"new", "old"}),
        (("Stable",), ("consumer",), {"new"}),
        (("Empty",), ("consumer",), set()),
        (("Reconciling", "assigning"), (), set()),
    ],
)
def test_groups_of_both_kinds_are_listed(states: Any, types: Any, expected: set[str]) -> None:
    listed = both_kinds().list_groups(range(4), states, types)
    assert {one.group_id for one in listed} == expected
    assert {(one.group_id, one.group_type, one.protocol_type) for one in listed} <= {
        ("new", "consumer", "consumer"),
        ("old", "classic", "consumer"),
        ("simple", "classic", ""),
    }


def test_the_states_of_a_group_are_listed() -> None:
    groups = ConsumerGroups(orders=2, settings={"group_consumer_assignment_interval_ms": 1_000})

    def state() -> str:
        return groups.list_groups(range(4), (), ())[0].group_state

    groups.enter("a")
    assert state() == "Stable"
    groups.enter("b")
    assert state() == "Assigning"
    groups.advance(1_000)
    groups.beat("b", 2)
    assert state() == "Reconciling"
    groups.beat("a", 2)
    groups.beat("a", 2, owns={"orders": [0]})
    groups.beat("b", 3)
    assert state() == "Stable"
    groups.beat("a", -1)
    groups.beat("b", -1)
    assert state() == "Empty"


def test_each_type_is_described_by_its_own_api() -> None:
    groups = both_kinds()
    coordinator = groups.coordinator
    not_classic = groups.describe_group("new", 6)
    assert (not_classic.error_code, not_classic.error_message, not_classic.group_state) == (
        E.GROUP_ID_NOT_FOUND,
        "Group new is not a classic group.",
        "Dead",
    )
    older = groups.describe_group("new", 5)
    assert (older.error_code, older.group_state) == (E.NONE, "Dead")
    expected = (E.GROUP_ID_NOT_FOUND, "Group old is not a consumer group.")
    assert raised(lambda: to_the_end(coordinator.describe_consumer_group("old"))) == expected
    expected = (E.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert raised(lambda: to_the_end(coordinator.describe_consumer_group("none"))) == expected
    assert raised(lambda: to_the_end(coordinator.describe_consumer_group("")))[0] is E.INVALID_GROUP_ID


def test_only_a_group_without_members_may_be_deleted() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    delete = lambda: groups.delete_group("g", groups.now_ms)
    assert raised(delete)[0] is E.NON_EMPTY_GROUP
    groups.beat("a", -1)
    assert raised(delete)[0] is E.NONE
    assert raised(delete)[0] is E.GROUP_ID_NOT_FOUND


def test_a_group_without_members_and_offsets_expires() -> None:
    groups = ConsumerGroups(orders=2, settings={"offsets_retention_minutes": 60})
    groups.enter("a")
    groups.commit({("orders", 0): 7}, member="a", generation=2, version=9)
    for _ in range(3 * 60 * 2):
        groups.advance(30_000)
        groups.beat("a", 2)
    assert groups.committed() == {("orders", 0): 7}, "the topic is subscribed to"
    groups.beat("a", -1)
    groups.advance(600_000)
    assert groups.committed() == {}
    assert groups.list_groups(range(4), (), ()) == []
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}


def test_an_unloaded_group_wakes_no_task() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.coordinator.close(E.NOT_COORDINATOR, groups.now_ms)
    assert groups.coordinator.next_deadline_ms() is None
