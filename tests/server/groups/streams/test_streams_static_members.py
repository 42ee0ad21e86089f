"""Static members of streams groups: they leave for a while and return with their tasks, perhaps under another id."""

from __future__ import annotations

from functools import partial
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse, TaskOffset
from ottla.server.coordination.jobs import never
from ottla.server.groups.streams.configured import StatusCode
from ottla.server.groups.streams.member import StreamsMemberState, StreamsTasks
from support.groups.consumer_groups import raised
from support.groups.streams_groups import SESSION_MS, StreamsGroups, active, statuses, table_of

AWAY = -2


def enter(groups: StreamsGroups, member: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
    return groups.enter(member, **{"instance_id": "i", "process_id": "p", **fields})


def away_group() -> StreamsGroups:
    """Return a group whose only member, "a", has left for a while."""
    groups = StreamsGroups(orders=2)
    enter(groups, "a")
    answer = groups.beat("a", AWAY, instance_id="i")
    assert (answer.member_id, answer.member_epoch, answer.status) == ("a", AWAY, ())
    return groups


def test_a_member_that_leaves_for_a_while_keeps_its_tasks_until_its_session_ends() -> None:
    groups = away_group()
    member = groups.table().members["a"]
    assert (member.epoch, member.assigned.active) == (AWAY, {"0": {0: 0, 1: 0}})
    assert active(groups.enter("b")) == {}
    groups.advance(SESSION_MS - 1)
    groups.beat("b", 3)
    groups.advance(1)
    assert set(groups.table().members) == {"b"}
    assert active(groups.beat("b", 3)) == {"0": {0, 1}}


def test_another_id_takes_over_the_tasks_without_a_new_target() -> None:
    groups = away_group()
    answer = enter(groups, "b")
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)
    table = groups.table()
    assert (table.epoch, set(table.members), set(table.targets), set(table.sessions)) == (2, {"b"}, {"b"}, {"b"})
    assert table_of(groups.restarted()) == table_of(groups)


def test_the_only_member_learns_of_a_requested_shutdown_when_it_returns() -> None:
    groups = StreamsGroups(orders=2)
    enter(groups, "a")
    groups.beat("a", 2, instance_id="i", shutdown_application=True)
    groups.beat("a", AWAY, instance_id="i")
    assert list(statuses(enter(groups, "b"))) == [StatusCode.SHUTDOWN_APPLICATION]
    assert statuses(groups.beat("b", 2, instance_id="i")) == {}, (
        "as at Apache Kafka, where the group was empty in between"
    )


def test_the_same_id_may_return() -> None:
    groups = away_group()
    groups.table().task_offsets.clear()
    offsets = (TaskOffset(subtopology_id="0", partition=0, offset=5),)
    assert active(enter(groups, "a", task_offsets=offsets)) == {"0": {0, 1}}
    assert groups.table().epoch == 2
    groups.beat("a", 2, instance_id="i")
    assert groups.table().task_offsets == {}, "as at Apache Kafka"


def test_a_member_that_returns_in_another_process_causes_another_target() -> None:
    groups = away_group()
    assert enter(groups, "b", process_id="q").member_epoch == 3
    groups.beat("b", AWAY, instance_id="i")
    assert enter(groups, "c", process_id="q", client="other").member_epoch == 3
    assert groups.table().members["c"].client_id == "other"


def test_a_target_made_while_a_member_is_replaced_is_that_of_the_member_that_replaces_it() -> None:
    groups = StreamsGroups(orders=2_000)
    enter(groups, "a")
    groups.beat("a", AWAY, instance_id="i")
    groups.works_at_once = False
    groups.enter("c")
    groups.coordinator._jobs.run(lambda: True)
    enter(groups, "b")
    groups.coordinator._jobs.run(never)
    table = groups.table()
    (ours, theirs) = (table.targets[member].active["0"] for member in "bc")
    assert (ours | theirs, ours & theirs) == (frozenset(range(2_000)), frozenset())
    assert groups.restarted().table().targets == table.targets


def test_a_known_member_that_takes_the_place_of_another_leaves_its_own_tasks() -> None:
    groups = StreamsGroups(orders=4)
    enter(groups, "a")
    enter(groups, "b", instance_id="j")
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}}, instance_id="i")
    groups.beat("a", AWAY, instance_id="i")
    enter(groups, "b")
    assert groups.table().targets == {"b": StreamsTasks(active={"0": frozenset(range(4))})}
    assert table_of(groups.restarted()) == table_of(groups)


def test_a_member_that_was_giving_up_tasks_continues_when_it_returns() -> None:
    groups = StreamsGroups(orders=4)
    enter(groups, "a")
    groups.enter("b")
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}}, instance_id="i")
    assert groups.table().members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    groups.beat("a", AWAY, instance_id="i")
    answer = enter(groups, "c")
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 3)
    assert active(groups.beat("b", 3)) == {"0": {2, 3}}


def test_an_instance_id_in_use_is_refused_and_a_wrong_one_fenced() -> None:
    groups = StreamsGroups(orders=2)
    enter(groups, "a")
    before = groups.store.appends
    in_use = "Static member {} with instance id i cannot join the group because the instance id is owned by a member."
    for member in ("b", "a"):
        assert raised(partial(enter, groups, member)) == (ErrorCode.UNRELEASED_INSTANCE_ID, in_use.format(member))
    for epoch in (2, -1, AWAY):
        assert raised(partial(groups.beat, "b", epoch, instance_id="i")) == (
            ErrorCode.FENCED_INSTANCE_ID,
            "Static member b with instance id i was fenced by member a.",
        )
        assert raised(partial(groups.beat, "a", epoch, instance_id="j")) == (
            ErrorCode.UNKNOWN_MEMBER_ID,
            "Instance id j is unknown.",
        )
    assert groups.store.appends == before
    groups.beat("a", -1, instance_id="i")
    assert active(enter(groups, "b")) == {"0": {0, 1}}


def test_a_dynamic_member_may_become_static_and_change_its_instance_id() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    enter(groups, "a")
    enter(groups, "a", instance_id="j")
    assert groups.table().static_members == {"j": "a"}
    assert groups.beat("a", groups.table().members["a"].epoch).error_code == 0
    assert groups.described().members[0].instance_id == "j"


def test_a_full_group_takes_a_member_that_returns() -> None:
    groups = StreamsGroups(orders=2, settings={"group_streams_max_size": 1})
    enter(groups, "a")
    groups.beat("a", AWAY, instance_id="i")
    assert raised(lambda: groups.enter("b"))[0] is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert active(enter(groups, "b")) == {"0": {0, 1}}
