"""Static members (KIP-345): they come back without a rebalance, and a client with their old id is fenced."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from support.groups.groups import Groups


def static_group(*instances: str, session_ms: int = 10_000) -> tuple[Groups, list[str]]:
    """Return a stable group of static members; each is assigned its instance id."""
    groups = Groups()
    replies = [groups.join(instance=instance, version=5, session_ms=session_ms) for instance in instances]
    groups.advance(0)
    ids = [reply.answer.member_id for reply in replies]
    followers = [
        groups.sync(member, 1, instance=instance) for member, instance in zip(ids[1:], instances[1:], strict=True)
    ]
    assignments = {member: instance.encode() for member, instance in zip(ids, instances, strict=True)}
    groups.sync(ids[0], 1, assignments, instance=instances[0])
    assert all(not reply.answer.error_code for reply in followers)
    return groups, ids


def test_a_static_member_joins_with_one_request_and_its_instances_name() -> None:
    groups = Groups()
    reply = groups.join(instance="i", version=9)
    groups.advance(0)
    assert (reply.answer.error_code, reply.answer.member_id) == (ErrorCode.NONE, "i-1")
    assert reply.answer.members[0].group_instance_id == "i"


def test_a_returning_static_member_keeps_its_assignment_without_rebalance() -> None:
    groups, (leader, follower) = static_group("i", "k")

    back = groups.join(instance="k", version=5).answer

    assert back.error_code == ErrorCode.NONE
    assert back.member_id not in (leader, follower)
    assert (back.generation_id, back.leader, back.members) == (1, leader, ())
    assert groups.state() == "Stable"
    assert groups.sync(back.member_id, 1, instance="k").answer.assignment == b"k"
    assert groups.heartbeat(back.member_id, 1, instance="k") == ErrorCode.NONE
    assert groups.members() == [leader, back.member_id]


def test_the_old_id_of_a_static_member_is_fenced_everywhere() -> None:
    groups, (_, old) = static_group("i", "k")
    groups.join(instance="k", version=5)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert groups.heartbeat(old, 1, instance="k") == fenced
    assert groups.sync(old, 1, instance="k").answer.error_code == fenced
    assert groups.join(member=old, instance="k", version=5).answer.error_code == fenced
    assert groups.leave((old, "k")) == [fenced]
    assert groups.heartbeat(old, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_instance_fences_the_parked_requests_of_the_old_one() -> None:
    groups, (leader, follower) = static_group("i", "k")
    old_join = groups.join(member=follower, instance="k", protocols=[("range", b"news")], version=5)
    assert old_join.is_parked
    new_join = groups.join(instance="k", protocols=[("range", b"news")], version=5)
    assert (old_join.answer.error_code, old_join.answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, follower)
    groups.join(member=leader, instance="i", version=5)
    assert new_join.answer.generation_id == 2

    old_sync = groups.sync(new_join.answer.member_id, 2, instance="k")
    assert old_sync.is_parked
    groups.join(instance="k", protocols=[("range", b"news")], version=5)
    assert old_sync.answer.error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_leader_skips_the_assignment_from_version_9() -> None:
    groups, (_, follower) = static_group("i", "k")
    back = groups.join(instance="i", version=9).answer
    assert (back.leader, back.skip_assignment) == (back.member_id, True)
    assert [one.member_id for one in back.members] == [back.member_id, follower]
    assert groups.state() == "Stable"


def test_a_returning_leader_of_older_versions_is_no_longer_leader() -> None:
    """Otherwise it would compute an assignment that no member waits for."""
    groups, (old, _) = static_group("i", "k")
    back = groups.join(instance="i", version=8).answer
    assert (back.leader, back.skip_assignment, back.members) == (old, False, ())
    # It is the leader nevertheless: it may cause a rebalance.
    assert groups.join(member=back.member_id, instance="i", version=8).is_parked


def test_a_returning_member_that_changes_the_protocol_causes_a_rebalance() -> None:
    groups = Groups()
    first = groups.join(instance="i", version=5, protocols=[("range", b""), ("sticky", b"")])
    groups.advance(0)
    groups.sync_all([first.answer.member_id], 1)

    back = groups.join(instance="i", version=5, protocols=[("sticky", b""), ("range", b"")])

    assert (back.answer.generation_id, back.answer.protocol_name) == (2, "sticky")


def test_a_member_that_returns_before_the_assignment_causes_a_rebalance() -> None:
    """The leader may be assigning partitions to the old id at this moment."""
    groups = Groups()
    groups.join(instance="i", version=5)
    groups.join(instance="k", version=5)
    groups.advance(0)
    back = groups.join(instance="k", version=5)
    assert back.is_parked
    assert groups.heartbeat("i-1", 1, instance="i") == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.sync("i-1", 1, {}, instance="i").answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_returned_members_session_can_expire() -> None:
    groups, (leader, _) = static_group("i", "k", session_ms=10_000)
    groups.advance(9_000)
    back = groups.join(instance="k", version=5, session_ms=10_000).answer.member_id
    groups.heartbeat(leader, 1)
    groups.advance(9_999)
    groups.heartbeat(leader, 1)
    assert groups.members() == [leader, back]
    groups.advance(1)
    assert groups.members() == [leader]


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_ends() -> None:
    groups, (leader, follower) = static_group("i", "k", session_ms=100_000)
    rejoin = groups.join(member=leader, instance="i", version=5, rebalance_ms=60_000)
    groups.advance(60_000)
    assert [one.member_id for one in rejoin.answer.members] == [leader, follower]


def test_absent_static_members_are_waited_for_until_their_sessions_end() -> None:
    groups, (leader, follower) = static_group("i", "k", session_ms=100_000)
    groups.join(client="d")
    groups.leave("d-3")
    assert groups.state() == "PreparingRebalance"

    groups.advance(99_999)
    assert (groups.state(), groups.members()) == ("PreparingRebalance", [leader, follower])
    groups.advance(60_001)
    assert (groups.state(), groups.members()) == ("Empty", [])


def test_a_returned_members_assignment_survives_a_restart_under_the_new_id() -> None:
    groups, _ = static_group("i", "k")
    back = groups.join(instance="k", version=5).answer.member_id
    again = groups.restarted()
    assert again.sync(back, 1, instance="k").answer.assignment == b"k"
    assert again.members() == groups.members()


def test_if_the_new_id_cannot_be_recorded_the_old_one_stays() -> None:
    groups, (leader, follower) = static_group("i", "k")
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    answer = groups.join(instance="k", version=5, protocols=[("range", b"news")]).answer
    assert (answer.error_code, answer.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    groups.store.failure = None
    assert groups.members() == [leader, follower]
    assert groups.heartbeat(follower, 1, instance="k") == ErrorCode.NONE
    # Its old metadata is no change; the refused metadata would be one.
    assert not groups.join(member=follower, instance="k", version=5).is_parked


@pytest.mark.parametrize("version", [5, 9])
def test_a_static_member_with_its_id_rejoins_normally(version: int) -> None:
    groups, (leader, follower) = static_group("i", "k")
    answer = groups.join(member=follower, instance="k", version=version).answer
    assert (answer.member_id, answer.generation_id, answer.leader) == (follower, 1, leader)
    assert groups.join(member=follower, instance="x", version=version).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
