"""Reconciliation of consumer groups: on the way to a new assignment no member gets a partition that another still has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.coordination.jobs import never
from ottla.server.groups.consumer import targets
from ottla.server.groups.consumer.records import current_assignment, member_metadata
from ottla.server.groups.records import write_record
from support.groups.consumer_groups import REBALANCE_MS, SESSION_MS, ConsumerGroups


def test_the_first_member_has_everything_at_once() -> None:
    groups = ConsumerGroups(orders=3)
    answer = groups.enter("a")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert groups.given(answer) == {"orders": {0, 1, 2}}
    assert groups.described().group_state == "Stable"


def test_an_unchanged_heartbeat_returns_and_writes_nothing() -> None:
    groups = ConsumerGroups(orders=3)
    groups.enter("a")
    written = groups.store.end_offset(groups.coordinator.partition_for("g"))
    answer = groups.beat("a", 2)
    assert (answer.member_epoch, answer.assignment) == (2, None)
    assert groups.store.end_offset(groups.coordinator.partition_for("g")) == written


def test_a_full_request_is_answered_in_full() -> None:
    groups = ConsumerGroups(orders=3)
    groups.enter("a")
    answer = groups.beat("a", 2, owns={"orders": [0, 1, 2]}, topics=["orders"], rebalance_timeout_ms=REBALANCE_MS)
    assert groups.given(answer) == {"orders": {0, 1, 2}}


def test_partitions_are_reassigned_only_after_revocation() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a")

    joined = groups.enter("b")
    assert (joined.member_epoch, groups.given(joined)) == (3, {}), "a has everything still"
    assert groups.described().group_state == "Reconciling"

    told = groups.beat("a", 2)
    assert (told.member_epoch, groups.given(told)) == (2, {"orders": {0, 1}}), "it keeps its epoch until it has"
    assert groups.beat("b", 3).assignment is None

    assert groups.beat("a", 2, owns={"orders": [0, 1, 2]}).member_epoch == 2, "it still owns one of them"
    assert groups.beat("b", 3).assignment is None
    done = groups.beat("a", 2, owns={"orders": [0, 1]})
    assert (done.member_epoch, done.assignment) == (3, None)

    assert groups.given(groups.beat("b", 3)) == {"orders": {2, 3}}
    assert groups.described().group_state == "Stable"


def test_a_heartbeat_without_partitions_revokes_nothing() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    assert groups.beat("a", 2).member_epoch == 2


def test_partitions_of_a_leaving_member_are_free_at_once() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    left = groups.beat("a", -1)
    assert (left.member_id, left.member_epoch, left.heartbeat_interval_ms) == ("a", -1, 0)
    assert groups.given(groups.beat("b", 3)) == {"orders": {0, 1}}


def test_a_silent_member_is_removed_after_its_session() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.advance(SESSION_MS - 1)
    groups.beat("b", 3)
    assert set(groups.table().members) == {"a", "b"}
    groups.advance(1)
    assert set(groups.table().members) == {"b"}
    assert groups.error("a", 2)[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.given(groups.beat("b", 3)) == {"orders": {0, 1}}


def test_a_member_that_revokes_too_late_is_removed() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.advance(REBALANCE_MS - 1)
    groups.beat("a", 2, owns={"orders": [0, 1]})
    groups.advance(1)
    assert set(groups.table().members) == {"b"}


def test_a_member_that_revokes_in_time_stays() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    groups.beat("a", 2, owns={"orders": [0]})
    groups.advance(REBALANCE_MS)
    assert set(groups.table().members) == {"a", "b"}


def test_a_member_that_cannot_be_removed_is_removed_later() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.advance(SESSION_MS + 1_000)
    assert set(groups.table().members) == {"a"}
    groups.store.failure = None
    groups.advance(1_000)
    assert groups.table().members == {}


def test_a_change_that_cannot_be_written_has_no_effect() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.enter_error("b") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.error("a", -1)[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.store.failure = None
    assert set(groups.table().members) == {"a"}
    assert groups.beat("a", 2).member_epoch == 2


def test_a_member_revokes_unsubscribed_partitions_before_the_next_assignment() -> None:
    groups = ConsumerGroups(orders=2, bills=2, settings={"group_consumer_assignment_interval_ms": 60_000})
    groups.enter("a", "orders", "bills")
    answer = groups.beat("a", 2, topics=["orders"], owns={"orders": [0, 1], "bills": [0, 1]})
    assert (answer.member_epoch, groups.given(answer)) == (2, {"orders": {0, 1}})
    assert groups.table().assignment_epoch == 2, "the assignment is too young for another"
    assert groups.described().group_state == "Assigning"


def test_partitions_a_member_has_released_are_free_before_the_next_assignment() -> None:
    groups = ConsumerGroups(orders=2, bills=2, settings={"group_consumer_assignment_interval_ms": 60_000})
    groups.enter("a", "orders", "bills")
    answer = groups.beat("a", 2, topics=["orders"], owns={"orders": [0, 1]})
    assert (answer.member_epoch, groups.given(answer)) == (2, {"orders": {0, 1}})
    bills = groups.topics.id_of("bills") or b""
    assert groups.table().owners.is_free(bills, 0)


def test_a_member_with_a_larger_subscription_waits_for_the_next_assignment() -> None:
    groups = ConsumerGroups(orders=2, bills=2, settings={"group_consumer_assignment_interval_ms": 60_000})
    groups.enter("a")
    assert groups.beat("a", 2, topics=["orders", "bills"], owns={"orders": [0, 1]}).assignment is None
    groups.advance(30_000)
    groups.beat("a", 2)
    groups.advance(30_000)
    assert groups.given(groups.beat("a", 2)) == {"orders": {0, 1}, "bills": {0, 1}}


def test_a_new_assignment_waits_until_the_last_is_old_enough() -> None:
    groups = ConsumerGroups(orders=2, settings={"group_consumer_assignment_interval_ms": 1_000})
    groups.enter("a")
    joined = groups.enter("b")
    assert (joined.member_epoch, groups.given(joined)) == (2, {}), "it is in the epoch of the last assignment"
    groups.advance(999)
    assert groups.beat("a", 2).assignment is None
    groups.advance(1)
    assert groups.given(groups.beat("a", 2)) == {"orders": {0}}
    assert groups.table().assignment_epoch == 3


def test_the_first_member_of_an_empty_group_has_everything_at_once() -> None:
    groups = ConsumerGroups(orders=2, settings={"group_consumer_assignment_interval_ms": 1_000})
    groups.enter("a")
    groups.beat("a", -1)
    again = groups.restarted()
    for each in (groups, again):
        joined = each.enter("b")
        assert (joined.member_epoch, each.given(joined)) == (4, {"orders": {0, 1}})


@pytest.mark.parametrize("is_taken", [False, True])
def test_an_assignment_for_members_that_have_all_left_is_dropped(
    is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "ASSIGNED_AT_ONCE", 1)
    groups = ConsumerGroups(orders=4, settings={"group_consumer_assignment_interval_ms": 1_000})
    groups.works_at_once = False
    groups.enter("a")
    groups.coordinator._jobs.run(lambda: True)
    groups.beat("a", -1)
    joined = groups.enter("b") if is_taken else None
    groups.coordinator._jobs.run(never)
    table = groups.table()
    assert table.assignment_epoch == 3, "a target never becomes an earlier one"
    assert groups.restarted().table().assignment_epoch == 3
    epoch = groups.enter("b").member_epoch if joined is None else groups.beat("b", joined.member_epoch).member_epoch
    groups.coordinator._jobs.run(never)
    assert groups.given(groups.beat("b", epoch, owns={})) == {"orders": {0, 1, 2, 3}}


def test_a_vote_that_gives_the_group_another_assignor_brings_it_to_its_next_epoch() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    assert groups.beat("a", 2, server_assignor="uniform").member_epoch == 2, "uniform is the default"
    assert groups.beat("a", 2, server_assignor="range").member_epoch == 3
    assert groups.beat("a", 3, server_assignor="range").member_epoch == 3
    assert groups.enter("b", server_assignor="uniform").member_epoch == 4
    assert groups.described().assignor_name == "uniform", "of as many votes"
    groups.beat("a", 3, server_assignor="uniform")
    assert groups.table().epoch == 4


def test_the_assignor_requested_by_most_members_is_used() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    assert groups.described().assignor_name == "uniform"
    groups.enter("b", server_assignor="range")
    assert groups.described().assignor_name == "range"
    groups.beat("b", -1)
    assert groups.described().assignor_name == "uniform"


def test_a_member_in_an_unknown_state_restarts() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    key, value = current_assignment("g", groups.table().members["a"])
    newer = write_record(key, replace(value, state=99))
    groups.store.append(groups.coordinator.partition_for("g"), [newer], groups.now_ms)
    groups = groups.restarted()
    assert groups.error("a", 2, owns={"orders": [0, 1]})[0] is ErrorCode.FENCED_MEMBER_EPOCH
    assert groups.given(groups.enter("a")) == {"orders": {0, 1}}
    assert groups.described().group_state == "Stable"


def test_the_vote_for_an_assignor_of_another_broker_does_not_count() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    change = member_metadata("g", replace(groups.table().members["a"], assignor="of-another-broker"))
    groups.store.append(groups.coordinator.partition_for("g"), [write_record(*change)], groups.now_ms)
    groups = groups.restarted()
    groups.enter("b")
    assert groups.given(groups.beat("a", 2, owns={"orders": [0, 1]})) == {"orders": {0}}
    assert groups.described().assignor_name == "uniform"


@pytest.mark.parametrize("is_held", [False, True])
def test_a_member_that_missed_an_answer_gets_its_partitions_again_where_heartbeats_are_held(is_held: bool) -> None:
    groups = ConsumerGroups(orders=2, settings={"ottla_hold_heartbeats": is_held})
    epoch = groups.enter("a").member_epoch
    groups.enter("b")
    left = groups.given(groups.beat("a", epoch))
    assert left is not None
    assert len(left["orders"]) == 1
    assert groups.given(groups.beat("a", epoch)) == (left if is_held else None)
    acknowledged = groups.beat("a", epoch, owns=left)
    assert (acknowledged.member_epoch, groups.given(acknowledged)) == (epoch + 1, None)
    assert groups.given(groups.beat("a", epoch, owns=left)) == (left if is_held else None)
    assert groups.given(groups.beat("a", epoch + 1)) is None
