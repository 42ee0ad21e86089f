"""Joining a classic group: member ids, votes, the initial delay, rebalances, and every error on the way."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupResponseMember
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.settings import MAX_PENDING_IDS, PROTOCOLS_MAX
from support.groups.groups import Groups, error_of

# Member ids


def test_a_new_member_receives_its_id_and_rejoins_with_it() -> None:
    groups = Groups()
    first = groups.join(version=4, client="c").answer
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert first.member_id == "c-1"
    assert first.generation_id == -1
    assert groups.state() == "Empty"

    second = groups.join(member="c-1", version=4)
    groups.advance(0)

    assert second.answer.error_code == ErrorCode.NONE
    assert (second.answer.member_id, second.answer.leader, second.answer.generation_id) == ("c-1", "c-1", 1)


def test_before_version_4_a_new_member_joins_at_once() -> None:
    groups = Groups()
    reply = groups.join(version=3)
    groups.advance(0)
    assert (reply.answer.error_code, reply.answer.member_id) == (ErrorCode.NONE, "c-1")


def test_an_unused_member_id_is_forgotten_after_the_session_time() -> None:
    groups = Groups()
    member_id = groups.join(version=4, session_ms=6_000).answer.member_id
    groups.advance(5_999)
    assert groups.join(member=member_id, version=4).is_parked

    groups = Groups()
    member_id = groups.join(version=4, session_ms=6_000).answer.member_id
    groups.advance(6_000)
    assert groups.join(member=member_id, version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_pending_ids_up_to_their_session() -> None:
    groups = Groups()
    (leader,), generation = groups.stable(1)
    member_id = groups.join(version=4, session_ms=6_000).answer.member_id
    rejoin = groups.join(member=leader)
    assert rejoin.is_parked

    groups.advance(5_999)
    assert rejoin.is_parked
    groups.advance(1)

    assert rejoin.answer.generation_id == generation + 1
    assert [one.member_id for one in rejoin.answer.members] == [leader]
    assert groups.join(member=member_id, version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_cannot_become_a_static_member() -> None:
    groups = Groups()
    member_id = groups.join(version=4).answer.member_id
    answer = groups.join(member=member_id, instance="i", version=5).answer
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_member_ids_stay_short_enough_to_be_sent() -> None:
    groups = Groups()
    member_id = groups.join(version=4, client="c" * 32_000).answer.member_id
    assert len(member_id) < 2_000
    assert member_id.endswith("-1")


# The first rebalance


def test_the_first_rebalance_waits_for_more_members() -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    one = groups.join(client="a")
    groups.advance(2_999)
    assert one.is_parked
    groups.advance(1)
    assert one.answer.generation_id == 1


def test_the_initial_delay_grows_with_joins_up_to_the_rebalance_timeout() -> None:
    """With delay 3 s and rebalance timeout 8 s, the group checks after 3, 6 and (the last cut to the remaining time) 8 s."""
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    replies = [groups.join(client="a", rebalance_ms=8_000)]
    ends = []
    for second in range(12):
        groups.advance(1_000)
        if not replies[0].is_parked:
            ends.append(second + 1)
            break
        replies.append(groups.join(client=f"b{second}", rebalance_ms=8_000))

    assert ends == [8]
    assert len(replies[0].answer.members) == len(replies) == 8


def test_the_delay_is_not_extended_without_joins() -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    one = groups.join(client="a")
    groups.advance(1_000)
    two = groups.join(client="b")
    groups.advance(2_000)
    assert one.is_parked
    groups.advance(3_000)
    assert (one.answer.generation_id, two.answer.generation_id) == (1, 1)


def test_a_group_that_is_not_new_rebalances_without_delay() -> None:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    one = groups.join(client="a")
    groups.advance(3_000)
    groups.sync_all([one.answer.member_id], 1)

    two = groups.join(client="b")
    again = groups.join(member=one.answer.member_id)

    assert (again.answer.generation_id, two.answer.generation_id) == (2, 2)


# Leader, members, protocols


def test_only_the_leader_gets_the_members_with_their_metadata() -> None:
    groups = Groups()
    first = groups.join(client="a", protocols=[("range", b"A"), ("sticky", b"a")])
    second = groups.join(client="b", protocols=[("range", b"B")])
    groups.advance(0)

    assert first.answer.leader == second.answer.leader == "a-1"
    assert first.answer.protocol_name == second.answer.protocol_name == "range"
    assert first.answer.protocol_type == "consumer"
    assert first.answer.members == (
        JoinGroupResponseMember(member_id="a-1", metadata=b"A"),
        JoinGroupResponseMember(member_id="b-2", metadata=b"B"),
    )
    assert second.answer.members == ()


VOTES = [
    ([["range"]], "range"),
    ([["range", "sticky"], ["sticky", "range"], ["sticky", "range"]], "sticky"),
    ([["a", "b", "c"], ["b", "c"], ["c", "b"]], "b"),
    ([["a", "b"], ["b", "a"]], "a"),
    ([["x", "common"], ["y", "common"]], "common"),
    ([["range", "range"], ["range"]], "range"),
]


@pytest.mark.parametrize(("preferences", "chosen"), VOTES)
def test_members_vote_among_the_commonly_supported_protocols(preferences: list[list[str]], chosen: str) -> None:
    groups = Groups()
    replies = [groups.join(protocols=[(name, b"") for name in names]) for names in preferences]
    groups.advance(0)
    assert {reply.answer.protocol_name for reply in replies} == {chosen}


MISFITS = [
    {"protocol_type": ""},
    {"protocols": []},
]


@pytest.mark.parametrize("arguments", MISFITS)
def test_a_first_member_must_offer_a_protocol(arguments: dict[str, str]) -> None:
    groups = Groups()
    assert groups.join(**arguments).answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [*MISFITS, {"protocol_type": "connect"}, {"protocols": [("sticky", b"")]}])
def test_a_later_member_must_share_a_protocol_with_the_group(arguments: dict[str, str]) -> None:
    groups = Groups()
    groups.stable(2)
    answer = groups.join(**arguments).answer  # type: ignore[arg-type]
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert groups.state() == "Stable"


def test_an_empty_group_takes_a_new_protocol_type() -> None:
    groups = Groups()
    (member,), _ = groups.stable(1)
    groups.leave(member)
    reply = groups.join(protocol_type="connect", protocols=[("default", b"")])
    groups.advance(0)
    assert (reply.answer.protocol_type, reply.answer.protocol_name) == ("connect", "default")


# Rejoining


def test_an_unchanged_follower_receives_its_current_generation() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2)
    answer = groups.join(member=follower).answer
    assert (answer.generation_id, answer.leader, answer.members) == (generation, leader, ())
    assert groups.state() == "Stable"


@pytest.mark.parametrize("who", [0, 1])
def test_the_leader_or_a_member_with_news_starts_a_rebalance(who: int) -> None:
    groups = Groups()
    ids, generation = groups.stable(2)
    news = [("range", b"news")] if who else [("range", b"")]

    first = groups.join(member=ids[who], protocols=news)
    assert first.is_parked
    assert groups.heartbeat(ids[1 - who], generation) == ErrorCode.REBALANCE_IN_PROGRESS
    second = groups.join(member=ids[1 - who])

    assert first.answer.generation_id == second.answer.generation_id == generation + 1


def test_a_member_that_missed_the_response_gets_it_again_before_the_assignment() -> None:
    groups = Groups()
    one, two = groups.join(client="a"), groups.join(client="b")
    groups.advance(0)
    assert groups.state() == "CompletingRebalance"

    assert groups.join(member="a-1").answer == one.answer
    assert groups.join(member="b-2").answer == two.answer


def test_a_changed_member_during_completing_rebalance_restarts_the_rebalance() -> None:
    groups = Groups()
    groups.join(client="a")
    groups.join(client="b")
    groups.advance(0)
    waiting = groups.sync("b-2", 1)

    groups.join(member="b-2", protocols=[("range", b"news")])

    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.state() == "PreparingRebalance"


def test_a_join_sent_twice_is_answered_on_both_connections() -> None:
    """The first connection may be closed; its request must not wait there for ever."""
    groups = Groups()
    (one, _two), generation = groups.stable(2)
    first = groups.join(member=one)
    second = groups.join(member=one)
    assert first.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_parked
    groups.advance(60_000)
    assert second.answer.generation_id == generation + 1


def test_members_that_rejoin_too_late_are_removed_and_the_leader_replaced() -> None:
    groups = Groups()
    (leader, follower), generation = groups.stable(2, rebalance_ms=20_000, session_ms=60_000)
    rejoin = groups.join(member=follower, protocols=[("range", b"news")], rebalance_ms=20_000)

    groups.advance(19_999)
    assert rejoin.is_parked
    groups.advance(1)

    assert (rejoin.answer.leader, rejoin.answer.generation_id) == (follower, generation + 1)
    assert groups.members() == [follower]
    assert groups.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_rebalance_lasts_as_long_as_the_most_patient_member_asks_for() -> None:
    groups = Groups()
    one = groups.join(client="a", rebalance_ms=10_000, session_ms=100_000)
    two = groups.join(client="b", rebalance_ms=50_000, session_ms=100_000)
    groups.advance(0)
    groups.sync_all([one.answer.member_id, two.answer.member_id], 1)

    rejoin = groups.join(member="a-1", rebalance_ms=10_000)
    groups.advance(49_999)
    assert rejoin.is_parked
    groups.advance(1)
    assert rejoin.answer.generation_id == 2


def test_a_parked_new_member_is_dropped_after_five_minutes() -> None:
    """Such a member has no id, so it cannot send heartbeats; without the limit a retrying client would leave members behind."""
    groups = Groups()
    groups.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    reply = groups.join(client="new", rebalance_ms=1_800_000)
    groups.advance(299_999)
    assert reply.is_parked
    groups.advance(1)
    assert reply.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Errors of the whole request


def test_a_group_needs_an_id() -> None:
    assert error_of(lambda: Groups().join(group="")) == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(("session_ms", "error"), [(5_999, 26), (6_000, 0), (1_800_000, 0), (1_800_001, 26), (-1, 26)])
def test_the_session_timeout_has_bounds(session_ms: int, error: int) -> None:
    assert error_of(lambda: Groups().join(session_ms=session_ms)) == error


def test_a_member_id_for_an_unknown_group_is_refused() -> None:
    groups = Groups()
    assert groups.join(member="c-1").answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.list_groups(range(4), (), ()) == []


def test_an_unknown_member_id_is_refused() -> None:
    groups = Groups()
    groups.stable(1)
    answer = groups.join(member="nobody").answer
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")


def test_a_full_group_refuses_new_members_but_its_members_rejoin() -> None:
    groups = Groups(group_max_size=2)
    ids, generation = groups.stable(2)
    assert groups.join().answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.state() == "Stable"

    replies = [groups.join(member=member) for member in ids]

    assert [generation + 1] * 2 == [reply.answer.generation_id for reply in replies]


def test_a_group_over_its_size_drops_the_last_members_to_rejoin() -> None:
    """This is the state after a restart with a smaller `group.max.size`."""
    groups = Groups()
    ids, generation = groups.stable(3)
    smaller = groups.restarted(group_max_size=2)
    assert smaller.state() == "PreparingRebalance"
    assert smaller.heartbeat(ids[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS

    replies = [smaller.join(member=member) for member in ids]
    smaller.advance(60_000)

    assert [reply.answer.error_code for reply in replies] == [0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert smaller.members() == ids[:2]


@pytest.mark.parametrize("failure", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_group_that_cannot_be_recorded_is_not_created(failure: ErrorCode) -> None:
    groups = Groups()
    groups.store.failure = failure
    assert error_of(groups.join) == failure
    assert groups.list_groups(range(4), (), ()) == []


def test_unused_ids_are_limited_and_the_oldest_is_dropped() -> None:
    groups = Groups()
    ids = [groups.join(version=4, session_ms=1_800_000).answer.member_id for _ in range(MAX_PENDING_IDS + 2)]
    group = groups.coordinator.shard_of("g").groups["g"]
    assert isinstance(group, ClassicGroup)
    assert len(group.pending) == MAX_PENDING_IDS

    assert groups.join(member=ids[1], version=4).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    used = groups.join(member=ids[2], version=4)
    assert used.is_parked or used.answer.error_code == ErrorCode.NONE
    assert ids[2] in group.members


def test_the_size_of_members_protocols_is_limited() -> None:
    groups = Groups()
    batch_bytes = groups.store.max_batch_bytes(0)
    large = bytes(3 * batch_bytes)
    (one,), _ = groups.stable(1)
    assert groups.join(protocols=[("range", large), ("roundrobin", large)]).is_parked
    assert error_of(lambda: groups.join(protocols=[("range", large)])) == ErrorCode.UNKNOWN_SERVER_ERROR
    # An existing member may continue, with as much metadata as before or less.
    assert error_of(lambda: groups.join(member=one, protocols=[("range", bytes(10))])) == ErrorCode.NONE
    groups.advance(400_000)
    assert groups.join(protocols=[("range", large)]).is_parked


def test_the_number_of_protocols_a_member_offers_is_limited() -> None:
    many = [(f"p{number}", b"") for number in range(PROTOCOLS_MAX + 1)]
    assert error_of(lambda: Groups().join(protocols=many)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert Groups().join(protocols=many[1:]).is_parked
