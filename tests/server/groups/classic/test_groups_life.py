"""Syncing, heartbeats, sessions and leaving: a classic group between its rebalances."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from support.groups.groups import Groups, error_of
from support.noted import each_case

NONE = ErrorCode.NONE

# SyncGroup


def test_followers_wait_for_the_leaders_assignment() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    follower = groups.sync("b-2", 1)
    assert follower.is_parked

    leader = groups.sync("a-1", 1, {"a-1": b"mine", "b-2": b"yours"})

    assert groups.state() == "Stable"
    assert (leader.answer.assignment, follower.answer.assignment) == (b"mine", b"yours")
    assert (follower.answer.protocol_type, follower.answer.protocol_name) == ("consumer", "range")
    assert groups.sync("b-2", 1).answer.assignment == b"yours"


def test_a_member_without_assignment_receives_an_empty_one() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    follower = groups.sync("b-2", 1)
    groups.sync("a-1", 1, {"a-1": b"all", "nobody": b"x"})
    assert (follower.answer.error_code, follower.answer.assignment) == (NONE, b"")


SYNC_ERRORS = [
    ({"member": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
    ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
    ({"generation": -1}, ErrorCode.ILLEGAL_GENERATION),
    ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"protocol_type": "consumer", "protocol_name": "range"}, NONE),
    ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
]


@each_case("arguments, error", SYNC_ERRORS)
def test_errors_of_a_sync_are_returned(arguments: dict[str, str], error: ErrorCode) -> None:
    groups = Groups()
    (member,), generation = groups.stable(1)
    reply = groups.sync(**{"member": member, "generation": generation, **arguments})  # type: ignore[arg-type]
    assert reply.answer.error_code == error


def test_a_sync_during_a_rebalance_returns_rebalance_in_progress() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2)
    groups.join(member=leader)
    assert groups.sync(follower, generation).answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_needs_an_id_everywhere() -> None:
    groups = Groups()
    for call in (
        lambda: groups.sync("m", 1, group=""),
        lambda: groups.heartbeat("m", 1, group=""),
        lambda: groups.leave("m", group=""),
        lambda: groups.delete_offsets("", [], 0),
    ):
        assert error_of(call) == ErrorCode.INVALID_GROUP_ID


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    groups = Groups()
    one = groups.join(client="a", rebalance_ms=20_000, session_ms=100_000)
    two = groups.join(client="b", rebalance_ms=20_000, session_ms=100_000)
    groups.advance(0)
    assert (one.answer.generation_id, two.answer.generation_id) == (1, 1)
    parked = groups.sync("b-2", 1)

    groups.advance(19_999)
    assert groups.state() == "CompletingRebalance"
    groups.advance(1)

    assert parked.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.members() == ["b-2"]


def test_a_follower_that_never_syncs_is_removed_from_a_stable_group() -> None:
    groups = Groups()
    groups.join(client="a", rebalance_ms=20_000, session_ms=100_000)
    groups.join(client="b", rebalance_ms=20_000, session_ms=100_000)
    groups.advance(0)
    groups.sync("a-1", 1, {"a-1": b"x", "b-2": b"y"})
    assert groups.state() == "Stable"
    groups.advance(20_000)
    assert (groups.state(), groups.members()) == ("PreparingRebalance", ["a-1"])


def test_once_all_have_synced_the_group_stays_stable() -> None:
    groups = Groups()
    ids, generation = groups.stable(2, session_ms=1_000_000)
    groups.advance(900_000)
    assert groups.state() == "Stable"
    assert groups.heartbeat(ids[0], generation) == NONE


def test_a_sync_sent_twice_is_answered_on_both_connections() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    first, second = groups.sync("b-2", 1), groups.sync("b-2", 1)
    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    groups.sync("a-1", 1, {"b-2": b"y"})
    assert second.answer.assignment == b"y"


def test_an_assignment_that_cannot_be_recorded_is_not_assigned() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    follower = groups.sync("b-2", 1)
    groups.store.failure = ErrorCode.NOT_COORDINATOR

    leader = groups.sync("a-1", 1, {"a-1": b"x", "b-2": b"y"})

    for reply in (leader, follower):
        assert (reply.answer.error_code, reply.answer.assignment) == (ErrorCode.NOT_COORDINATOR, b"")
    assert groups.state() == "PreparingRebalance"


# Heartbeats and sessions

HEARTBEAT_ERRORS = [
    ({"member": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
    ({"group": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({}, NONE),
]


@pytest.mark.parametrize(("arguments", "error"), HEARTBEAT_ERRORS)
def test_errors_of_a_heartbeat_are_returned(arguments: dict[str, str], error: ErrorCode) -> None:
    groups = Groups()
    (member,), generation = groups.stable(1)
    assert groups.heartbeat(**{"member": member, "generation": generation, **arguments}) == error  # type: ignore[arg-type]


def test_heartbeats_succeed_while_the_assignment_is_awaited() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.advance(0)
    assert groups.heartbeat("a-1", 1) == NONE


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    groups = Groups()
    (silent, alive), generation = groups.stable(2, session_ms=10_000)
    for _ in range(3):
        groups.advance(3_000)
        assert groups.heartbeat(alive, generation) == NONE
    groups.advance(999)
    assert groups.state() == "Stable"
    groups.advance(1)
    assert groups.heartbeat(alive, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.heartbeat(silent, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.members() == [alive]


def test_a_member_whose_join_is_parked_does_not_expire() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2, session_ms=10_000, rebalance_ms=100_000)
    rejoin = groups.join(member=leader, rebalance_ms=100_000)
    for _ in range(5):
        groups.advance(9_000)
        assert groups.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert rejoin.is_parked
    assert groups.members() == [leader, follower]


def test_the_session_restarts_when_a_parked_request_is_answered() -> None:
    groups = Groups()
    groups.join(client="a", session_ms=10_000)
    groups.join(client="b", session_ms=10_000)
    groups.advance(0)
    follower = groups.sync("b-2", 1)
    groups.advance(9_000)
    groups.heartbeat("a-1", 1)
    groups.advance(9_000)
    groups.sync("a-1", 1, {"b-2": b"y"})
    assert follower.answer.assignment == b"y"
    groups.advance(9_999)
    assert groups.heartbeat("b-2", 1) == NONE


def test_a_group_whose_last_member_fails_is_empty_in_a_new_generation() -> None:
    groups = Groups()
    _, generation = groups.stable(2, session_ms=10_000)
    groups.advance(10_000)
    groups.advance(60_000)
    assert (groups.state(), groups.members()) == ("Empty", [])
    reply = groups.join()
    groups.advance(0)
    assert reply.answer.generation_id == generation + 2


def test_a_commit_renews_the_session() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, session_ms=10_000)
    for _ in range(3):
        groups.advance(9_000)
        assert groups.commit({("orders", 0): 1}, member=member, generation=generation) == {}
    assert groups.state() == "Stable"


# LeaveGroup


def test_leaving_starts_a_rebalance_at_once() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2)
    assert groups.leave(leader) == [NONE]
    assert groups.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    answer = groups.join(member=follower).answer
    assert (answer.leader, answer.generation_id) == (follower, generation + 1)


def test_when_the_last_member_leaves_the_group_is_empty() -> None:
    groups = Groups()
    ids, _ = groups.stable(2)
    assert groups.leave(*ids) == [NONE, NONE]
    assert groups.state() == "Empty"


def test_a_group_becomes_empty_even_if_unrecorded() -> None:
    """A restart brings its members back, and they time out again: this does no harm."""
    groups = Groups()
    (member,), _ = groups.stable(1, session_ms=10_000)
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    assert groups.leave(member) == [NONE]
    assert groups.state() == "Empty"
    groups.store.failure = None
    again = groups.restarted()
    assert again.members() == [member]
    again.advance(10_000)
    assert again.state() == "Empty"


def test_a_leave_ends_the_wait_for_the_remaining_members() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2)
    rejoin = groups.join(member=leader)
    groups.leave(follower)
    assert rejoin.answer.generation_id == generation + 1


def test_a_removed_member_is_not_left_waiting() -> None:
    """An administrator may remove a member whose request is parked."""
    groups = Groups()
    (leader, _), _ = groups.stable(2)
    parked_join = groups.join(member=leader)
    groups.leave(leader)
    assert (parked_join.answer.error_code, parked_join.answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")

    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    parked_sync = groups.sync("b-2", 1)
    groups.leave("b-2")
    assert parked_sync.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_client_with_only_an_id_may_leave() -> None:
    groups = Groups()
    member_id = groups.join(version=4).answer.member_id
    assert groups.leave(member_id) == [NONE]
    assert groups.join(member=member_id, version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("identity", "error"),
    [
        (("nobody", None), ErrorCode.UNKNOWN_MEMBER_ID),
        (("", None), ErrorCode.UNKNOWN_MEMBER_ID),
        (("", "no-instance"), ErrorCode.UNKNOWN_MEMBER_ID),
        (("c0-1", "no-instance"), ErrorCode.UNKNOWN_MEMBER_ID),
        (("", "i"), NONE),
        (("i-2", "i"), NONE),
        (("old", "i"), ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_each_leave_gets_its_response(identity: tuple[str, str | None], error: ErrorCode) -> None:
    groups = Groups()
    groups.join(client="c0")
    groups.join(instance="i", version=5)
    groups.advance(0)
    groups.sync_all(["c0-1", "i-2"], 1)
    assert groups.leave(identity) == [error]
    assert groups.state() == ("Stable" if error else "PreparingRebalance")


def test_leaving_an_unknown_group_is_refused() -> None:
    assert Groups().leave("a", "b") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


# The end


def test_closing_answers_everything_that_is_parked() -> None:
    groups = Groups()
    joining = groups.join(group="j")
    groups.join(group="s", client="a")
    groups.join(group="s", client="b")
    groups.advance(0)
    again = groups.join(group="j", member=joining.answer.member_id, protocols=[("range", b"news")])
    third = groups.join(group="j")
    syncing = groups.sync("b-3", 1, group="s")
    parked = [reply for reply in (again, third, syncing) if reply.is_parked]
    assert parked

    groups.coordinator.close(ErrorCode.NOT_COORDINATOR, groups.now_ms)

    assert {reply.answer.error_code for reply in parked} == {ErrorCode.NOT_COORDINATOR}
    assert groups.coordinator.next_deadline_ms() is None
    assert error_of(lambda: groups.heartbeat("b-3", 1, group="s")) == ErrorCode.NOT_COORDINATOR
