"""Heartbeats of share groups: members that join, stay, leave or are too late, and their assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.config.group_configs import GroupConfig
from ottla.server.groups.shard import GroupShard
from ottla.server.groups.share import targets, transition
from ottla.server.groups.share.protocol import StatesToInitialize
from support.groups.groups import error_of
from support.groups.share_groups import SESSION_MS, ShareGroups
from support.noted import each_case

E = ErrorCode
ABANDON = " The member must abandon all its partitions and rejoin."


def test_a_member_gets_partitions_after_initialization_of_their_states() -> None:
    groups = ShareGroups(orders=3)
    first = groups.enter("a", rack_id="north")
    assert (first.member_id, first.member_epoch, first.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert groups.given(first) == {}
    assert groups.states() == ({}, {"orders": {0, 1, 2}}, set())
    assert set(groups.persister.states.values()) == {(2, -1)}
    second = groups.beat("a", 2)
    assert (second.member_epoch, groups.given(second)) == (3, {"orders": {0, 1, 2}})
    assert groups.given(groups.beat("a", 3)) is None
    assert groups.given(groups.beat("a", 3, topics=["orders"])) == {"orders": {0, 1, 2}}


def test_partitions_are_assigned_only_after_initialization_of_their_states() -> None:
    groups = ShareGroups(orders=2)
    groups.grants = False
    groups.enter("a")
    assert groups.states() == ({"orders": {0, 1}}, {}, set())
    groups.stay("a")
    assert (groups.assigned("a"), groups.table().members["a"].epoch) == ({}, 2)
    assert len(groups.grant()) == 1
    assert groups.settled("a") == {"orders": {0, 1}}


def test_members_share_the_partitions() -> None:
    groups = ShareGroups(orders=2)
    for member in "abc":
        groups.enter(member)
    for member in "abc":
        groups.settled(member)
    has = [groups.assigned(member)["orders"] for member in "abc"]
    assert sorted(map(len, has)) == [1, 1, 2]
    assert set().union(*has) == {0, 1}
    assert all(groups.table().members[member].epoch == groups.table().epoch for member in "abc")


def test_the_number_of_topics_in_different_lists_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transition, "GROUP_NAMES_MAX", 4)
    groups = ShareGroups(orders=1)
    for member, topics in (("a", ["orders", "x"]), ("b", ["orders", "y"]), ("c", ["orders", "x"])):
        assert not groups.enter(member, *topics).error_code
    code, message = groups.error("d", 0, topics=["orders"])
    assert code is E.GROUP_MAX_SIZE_REACHED and "too many topics by name in different lists (5, limit 4)" in message


def test_partitions_of_a_leaving_member_are_reassigned() -> None:
    groups = ShareGroups(orders=4)
    groups.enter("a")
    groups.enter("b")
    groups.settled("a")
    assert len(groups.assigned("a")["orders"]) == len(groups.assigned("b")["orders"]) == 2
    left = groups.beat("a", -1)
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms, left.assignment) == ("a", -1, 0, None)
    assert groups.settled("b") == {"orders": {0, 1, 2, 3}}
    groups.beat("b", -1)
    assert (groups.table().state_name, groups.described().group_state) == ("Empty", "Empty")


def test_the_previous_epoch_is_accepted_while_the_response_may_be_lost() -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    groups.stay("a")
    assert groups.beat("a", 2).member_epoch == 3
    assert groups.beat("a", 3).member_epoch == 3
    rejoined = groups.enter("a")
    assert (rejoined.member_epoch, groups.given(rejoined)) == (3, {"orders": {0, 1}})


REFUSED: dict[str, tuple[tuple[str, int], dict[str, Any], tuple[ErrorCode, str]]] = {
    "no member id": (("", 0), {"topics": ["orders"]}, (E.INVALID_REQUEST, "MemberId can't be empty.")),
    "a blank one": ((" \t", 0), {"topics": ["orders"]}, (E.INVALID_REQUEST, "MemberId can't be empty.")),
    "no group": (("a", 0), {"group": "", "topics": ["orders"]}, (E.INVALID_REQUEST, "GroupId can't be empty.")),
    "an empty rack": (("a", 2), {"rack_id": ""}, (E.INVALID_REQUEST, "RackId can't be empty.")),
    "no topics": (("x", 0), {}, (E.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")),
    "an empty list": (
        ("x", 0),
        {"topics": []},
        (E.INVALID_REQUEST, "SubscribedTopicNames must be set in first request."),
    ),
    "an epoch below": (("a", -2), {}, (E.INVALID_REQUEST, "MemberEpoch is invalid.")),
    "very many topics": (
        ("a", 3),
        {"topics": map(str, range(10_001))},
        (E.INVALID_REQUEST, "Too many subscribed topics in the request (10001, limit 10000)."),
    ),
    "an unknown member": (("x", 1), {}, (E.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")),
    "an unknown member that leaves": (("x", -1), {}, (E.UNKNOWN_MEMBER_ID, "Member x is not a member of group g.")),
    "an unknown group": (("a", 1), {"group": "h"}, (E.GROUP_ID_NOT_FOUND, "Share group h not found.")),
    "an unknown group that is left": (("a", -1), {"group": "h"}, (E.GROUP_ID_NOT_FOUND, "Group h not found.")),
    "another kind of group": (
        ("a", 0),
        {"group": "classic", "topics": ["orders"]},
        (E.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
    ),
    "another kind that is left": (
        ("a", -1),
        {"group": "classic"},
        (E.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
    ),
    "an epoch to come": (
        ("a", 4),
        {},
        (
            E.FENCED_MEMBER_EPOCH,
            "The share group member has a greater member epoch (4) than the one known by the group coordinator (3)."
            + ABANDON,
        ),
    ),
    "an epoch long gone": (
        ("a", 1),
        {},
        (
            E.FENCED_MEMBER_EPOCH,
            "The share group member has a smaller member epoch (1) than the one known by the group coordinator (3), and it"
            + " does not match the previous member epoch (2)."
            + ABANDON,
        ),
    ),
}


@each_case("arguments, fields, expected", REFUSED.values(), ids=REFUSED)
def test_refused_heartbeats_change_nothing(
    arguments: tuple[str, int], fields: dict[str, Any], expected: tuple[ErrorCode, str]
) -> None:
    groups = ShareGroups(orders=2)
    groups.commit({("orders", 0): 1}, group="classic")
    groups.enter("a")
    groups.stay("a")
    before = groups.copy_of_tables()
    assert groups.error(*arguments, **fields) == expected
    assert groups.copy_of_tables() == before


def test_a_full_group_refuses_new_members_and_keeps_existing_ones() -> None:
    groups = ShareGroups(orders=2, settings={"group_share_max_size": 1})
    groups.enter("a")
    told = "The share group has reached its maximum capacity of 1 members."
    assert groups.error("b", 0, topics=["orders"]) == (E.GROUP_MAX_SIZE_REACHED, told)
    assert groups.settled("a") == {"orders": {0, 1}}


def test_a_silent_member_is_removed() -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.advance(SESSION_MS - 1)
    groups.stay("a")
    groups.advance(1)
    assert set(groups.table().members) == {"a"}
    groups.advance(SESSION_MS)
    assert not groups.table().members and not groups.table().sessions


def test_each_group_has_its_own_timeouts() -> None:
    own = GroupConfig({}, {"share.heartbeat.interval.ms": 7_000, "share.session.timeout.ms": 60_000})
    groups = ShareGroups(orders=2, settings={"groups": {"g": own}})
    assert groups.enter("a").heartbeat_interval_ms == 7_000
    groups.enter("a", group="h")
    groups.advance(SESSION_MS)
    assert (set(groups.table().members), set(groups.table("h").members)) == ({"a"}, set())
    groups.advance(15_000)
    assert not groups.table().members


def test_another_assignment_waits_for_its_interval() -> None:
    groups = ShareGroups(orders=2, settings={"group_share_assignment_interval_ms": 1_000})
    groups.enter("a")
    assert groups.beat("a", 2).member_epoch == 2
    assert (groups.table().epoch, groups.table().assignment_epoch) == (3, 2)
    groups.advance(1_000)
    again = groups.beat("a", 2)
    assert (again.member_epoch, groups.given(again)) == (3, {"orders": {0, 1}})


def test_unsubscribed_partitions_are_revoked_at_once() -> None:
    groups = ShareGroups(orders=2, bills=2, settings={"group_share_assignment_interval_ms": 1_000_000})
    groups.enter("a", "orders", "bills")
    groups.advance(SESSION_MS - 1)
    groups.stay("a")
    groups = groups.restarted(group_share_assignment_interval_ms=0)
    assert groups.settled("a") == {"orders": {0, 1}, "bills": {0, 1}}
    groups = groups.restarted(group_share_assignment_interval_ms=1_000_000)
    epoch = groups.table().members["a"].epoch
    answer = groups.beat("a", epoch, topics=["bills"])
    assert (answer.member_epoch, groups.given(answer)) == (epoch, {"bills": {0, 1}})


def test_created_grown_and_deleted_topics_are_noticed() -> None:
    groups = ShareGroups(orders=1)
    groups.enter("a", "orders", "late")
    assert groups.settled("a") == {"orders": {0}}
    groups.put_topic("late", 2)
    assert groups.settled("a") == {"orders": {0}, "late": {0, 1}}
    groups.put_topic("orders", 3, is_new=False)
    assert groups.settled("a") == {"orders": {0, 1, 2}, "late": {0, 1}}
    groups.delete_topic("late")
    assert groups.states() == ({}, {"orders": {0, 1, 2}}, set())
    assert groups.settled("a") == {"orders": {0, 1, 2}}
    groups.put_topic("late", 1)
    assert groups.settled("a") == {"orders": {0, 1, 2}, "late": {0}}


def test_a_deletion_that_could_not_be_recorded_is_applied_at_the_load() -> None:
    groups = ShareGroups(orders=1, late=1)
    groups.enter("a", "orders", "late")
    groups.settled("a")
    groups.topics.delete("late")
    groups = groups.restarted()
    assert groups.states() == ({}, {"orders": {0}}, set())
    assert groups.settled("a") == {"orders": {0}}


def test_new_partitions_of_a_known_topic_start_at_their_first_record() -> None:
    """Else a group that starts at the latest would miss records written before it has heard of the partitions (4.4.0)."""
    groups = ShareGroups(orders=1)
    groups.enter("a")
    groups.settled("a")
    groups.put_topic("orders", 2, is_new=False)
    groups.put_topic("late", 1)
    groups.stay("a", topics=("orders", "late"))
    assert groups.settled("a") == {"orders": {0, 1}, "late": {0}}
    began = groups.persister.states
    starts = {(groups.topics.name_of(topic_id), at): start for (_, topic_id, at), (_, start) in began.items()}
    assert starts == {("orders", 0): -1, ("orders", 1): 0, ("late", 0): -1}


def test_the_first_member_of_an_emptied_group_is_assigned_at_once() -> None:
    groups = ShareGroups(orders=1, settings={"group_share_assignment_interval_ms": 15_000})
    groups.enter("a")
    groups.advance(15_000)
    assert groups.settled("a") == {"orders": {0}}
    groups.beat("a", -1)
    table = groups.table()
    assert table.assignment_epoch == table.epoch, "nothing is left to assign"
    for each in (groups, groups.restarted()):
        assert each.given(each.enter("b")) == {"orders": {0}}


def test_an_unchanged_group_writes_nothing() -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    groups.settled("a")
    partition = groups.coordinator.partition_for("g")
    before = groups.store.end_offset(partition)
    for _ in range(3):
        groups.stay("a")
        groups.advance(5_000)
    assert groups.store.end_offset(partition) == before


@pytest.mark.parametrize("word", ["refuses", "fails"])
def test_uninitialized_states_are_requested_again_by_the_next_heartbeat(word: str) -> None:
    groups = ShareGroups(orders=2)
    setattr(groups.persister, word, E.NOT_COORDINATOR)
    groups.enter("a")
    assert groups.states() == ({}, {}, set())
    groups.stay("a")
    assert groups.assigned("a") == {}
    setattr(groups.persister, word, None)
    assert groups.settled("a") == {"orders": {0, 1}}


def test_several_partitions_are_initialized_together_or_not_at_all() -> None:
    groups = ShareGroups(orders=2)
    groups.persister.refuses, groups.persister.refused = E.NOT_COORDINATOR, {1}
    groups.enter("a")
    assert groups.states() == ({}, {}, set())
    groups.persister.refuses = None
    assert groups.settled("a") == {"orders": {0, 1}}


def asked_with_the_next_heartbeat(groups: ShareGroups) -> list[StatesToInitialize]:
    groups.grants = False
    groups.stay("a")
    return list(groups.wishes)


def test_states_under_initialization_are_not_requested_twice() -> None:
    groups = ShareGroups(orders=2)
    groups.grants = False
    groups.enter("a")
    groups.advance(SESSION_MS - 1)
    assert asked_with_the_next_heartbeat(groups) == groups.wishes[:1], "the question of the first heartbeat"
    groups.grants = True
    assert groups.settled("a") == {"orders": {0, 1}}


def load(groups: ShareGroups, shard: GroupShard) -> None:
    shard.replay(groups.store.read(shard.partition, 0).read())
    groups.coordinator.activate(shard, groups.now_ms)
    groups.advance(0)


def die(groups: ShareGroups) -> ShareGroups:
    return groups.restarted()


def cannot_write(groups: ShareGroups) -> ShareGroups:
    groups.store.failure = E.COORDINATOR_NOT_AVAILABLE
    groups.grant()
    groups.store.failure = None
    return groups


def lead_elsewhere(groups: ShareGroups) -> ShareGroups:
    """Answer while the group's new shard is loading."""
    shard = groups.coordinator.reload(groups.table().partition, E.NOT_COORDINATOR, groups.now_ms)
    groups.grant()
    load(groups, shard)
    return groups


@pytest.mark.parametrize("happens", [die, cannot_write, lead_elsewhere])
def test_an_ended_initialization_is_requested_again_by_the_next_heartbeat(
    happens: Callable[[ShareGroups], ShareGroups],
) -> None:
    groups = ShareGroups(orders=2)
    groups.grants = False
    groups.enter("a")
    groups = happens(groups)
    assert groups.states() == ({"orders": {0, 1}}, {}, set())
    assert [wish.partitions for wish in asked_with_the_next_heartbeat(groups)] == [
        {groups.topics.id_of("orders"): frozenset({0, 1})}
    ]
    groups.grants = True
    assert groups.settled("a") == {"orders": {0, 1}}


def test_an_initialization_that_runs_during_a_reload_is_not_repeated() -> None:
    groups = ShareGroups(orders=2)
    groups.grants = False
    groups.enter("a")
    load(groups, groups.coordinator.reload(groups.table().partition, E.NOT_COORDINATOR, groups.now_ms))
    assert len(asked_with_the_next_heartbeat(groups)) == 1
    groups.grants = True
    assert groups.settled("a") == {"orders": {0, 1}}


def test_states_of_a_topic_deleted_during_initialization_do_not_return() -> None:
    groups = ShareGroups(orders=2, late=1)
    groups.grants = False
    groups.enter("a", "orders", "late")
    groups.delete_topic("late")
    groups.grant()
    assert groups.states() == ({}, {"orders": {0, 1}}, set())


def test_an_initialization_for_a_deleted_group_creates_nothing() -> None:
    groups = ShareGroups(orders=2)
    groups.grants = False
    groups.enter("a")
    groups.beat("a", -1)
    groups.delete_group("g", groups.now_ms)
    groups.grant()
    assert not groups.copy_of_tables()


def test_a_change_that_cannot_be_written_has_no_effect() -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    before = groups.copy_of_tables()
    groups.store.failure = E.NOT_COORDINATOR
    assert groups.error("b", 0, topics=["orders"])[0] is E.NOT_COORDINATOR
    groups.advance(SESSION_MS)
    assert groups.copy_of_tables() == before
    groups.store.failure = None
    groups.advance(500)
    assert not groups.table().members


def test_a_large_group_is_assigned_by_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "ASSIGNED_AT_ONCE", 3)
    groups = ShareGroups(orders=4)
    groups.enter("a")
    groups.enter("b")
    assert {len(groups.settled(member)["orders"]) for member in "ab"} == {2}
    groups.beat("a", -1)
    assert groups.settled("b") == {"orders": {0, 1, 2, 3}}
    assert groups.restarted().copy_of_tables() == groups.copy_of_tables()


@pytest.mark.parametrize("left", ["", "b"])
def test_a_member_that_leaves_during_the_assignment_has_no_target(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "ASSIGNED_AT_ONCE", 1)
    groups = ShareGroups(orders=4)
    groups.enter("a")
    groups.settled("a")
    table = groups.table()
    table.is_assigning = True  # So that the new member starts no job.
    groups.enter("b")
    job = groups.coordinator._share._assign(groups.coordinator.shard_of("g"), table, groups.now_ms)
    next(job)
    for member in {"a", "b"} - {left}:
        groups.beat(member, -1)
    for _ in job:
        pass
    assert (set(table.targets), set(table.members)) == ({*left}, {*left})
    assert (table.assignment_epoch == table.epoch) is (not left), "an empty group has nothing to assign"
    assert groups.restarted().copy_of_tables() == groups.copy_of_tables()


def test_members_are_described() -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a", rack_id="north")
    groups.settled("a")
    described = groups.described()
    assert (described.group_id, described.group_state, described.assignor_name) == ("g", "Stable", "simple")
    assert (described.group_epoch, described.assignment_epoch) == (3, 3)
    (member,) = described.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("a", "north", 3)
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("c", "/host", ("orders",))
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (groups.topics.id_of("orders"), "orders", (0, 1))
    groups.commit({("orders", 0): 1}, group="classic")
    for group in ("classic", "none"):
        assert error_of(lambda group=group: groups.described(group)) is E.GROUP_ID_NOT_FOUND  # type: ignore[misc]


def test_a_group_is_loaded_unchanged() -> None:
    groups = ShareGroups(orders=2, bills=1)
    groups.enter("a")
    groups.enter("b", "orders", "bills")
    groups.settled("a")
    again = groups.restarted()
    assert again.copy_of_tables() == groups.copy_of_tables()
    assert again.beat("a", again.table().members["a"].epoch).member_epoch == groups.table().members["a"].epoch
    again.advance(SESSION_MS)
    assert not again.table().members
