"""A streams group from the first member to the last: the tasks of each member, and the answers (KIP-1071)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue, TaskOffset, TopicPartition
from ottla.server.config.group_configs import GroupConfig
from ottla.server.coordination.jobs import A_PIECE
from ottla.server.groups.streams import targets
from ottla.server.groups.streams.configured import StatusCode
from support.groups.consumer_groups import raised
from support.groups.groups import FakeTopics
from support.groups.streams_groups import (
    COUNTS,
    REBALANCE_MS,
    SESSION_MS,
    StreamsGroups,
    active,
    info,
    standby,
    statuses,
    subtopology,
    topology,
)

STORE = topology(subtopology("0", "orders", changelogs=[info("kept")]))


def groups_with_store(standbys: int = 0) -> StreamsGroups:
    return StreamsGroups(orders=4, kept=4, settings={"group_streams_num_standby_replicas": standbys})


def test_the_first_member_gets_all_tasks() -> None:
    groups = StreamsGroups(orders=4)
    answer = groups.enter("a")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert active(answer) == {"0": {0, 1, 2, 3}}
    assert statuses(answer) == {}
    assert groups.table().state_name == "Stable"


def test_members_receive_the_interval_of_their_task_offsets() -> None:
    settings = {"groups": {"g": GroupConfig({}, {"streams.task.offset.interval.ms": 20_000})}}
    assert StreamsGroups(orders=4, settings=settings).enter("a").task_offset_interval_ms == 20_000
    assert StreamsGroups(orders=4).enter("a").task_offset_interval_ms == 60_000


def test_members_receive_the_acceptable_lag_of_warm_up_tasks() -> None:
    settings = {"groups": {"g": GroupConfig({}, {"streams.acceptable.recovery.lag": 2**40})}}
    groups = StreamsGroups(orders=4, settings=settings)
    assert [groups.enter("a").acceptable_recovery_lag, groups.beat("a", 2).acceptable_recovery_lag] == [2**40] * 2
    answer = StreamsGroups(orders=4).enter("a")
    assert (answer.acceptable_recovery_lag, answer.acceptable_recovery_lag_legacy) == (10_000, 0)


def test_a_member_without_a_required_client_tag_gets_a_status() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_rack_aware_assignment_tags": ("zone", "cluster", "rack")})
    tags = (KeyValue(key="cluster", value="x"),)
    missing = {
        StatusCode.MISSING_CLIENT_TAGS: "Missing required client tags for rack-aware standby assignment: [zone, rack]."
        " Configure them via 'client.tag.<tagKey>' in your Streams config."
    }
    assert statuses(groups.enter("a", client_tags=tags, version=1)) == missing
    assert statuses(groups.beat("a", 2, version=1)) == missing
    assert statuses(groups.beat("a", 2, version=0)) == {}
    assert groups.table().assignment_configs["rack.aware.assignment.tags"] == "zone,cluster,rack"
    own = groups.restarted(groups={"g": GroupConfig({}, {"streams.rack.aware.assignment.tags": ()})})
    assert statuses(own.beat("a", 2, version=1)) == {}
    assert own.table().epoch == 3, "other tags are a reason for another target"


def test_an_unchanged_member_receives_no_tasks() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    answer = groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    assert (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks) == (None, None, None)


def test_offsets_of_tasks_are_described_until_the_member_goes() -> None:
    def offset(partition: int, at: int) -> TaskOffset:
        return TaskOffset(subtopology_id="0", partition=partition, offset=at)

    def described() -> list[tuple[object, object]]:
        return [(one.task_offsets, one.task_end_offsets) for one in groups.described().members]

    groups = StreamsGroups(orders=4)
    groups.enter("a", task_offsets=(offset(1, 7),))
    assert described() == [((), ())], "those of the first member are lost, as at Apache Kafka"
    groups.beat("a", 2, task_offsets=(offset(1, 7), offset(0, 5)), task_end_offsets=())
    assert described() == [((offset(0, 5), offset(1, 7)), ())]
    groups.beat("a", 2, task_end_offsets=(offset(0, 9),))
    assert described() == [((offset(0, 5), offset(1, 7)), (offset(0, 9),))]
    assert groups.beat("a", 2).member_epoch == 2
    groups.beat("a", 2, task_offsets=())
    assert described() == [((), (offset(0, 9),))]
    groups.enter("b")
    assert described() == [((), (offset(0, 9),)), ((), ())]
    groups.beat("a", 2, task_end_offsets=())
    assert described() == [((), ()), ((), ())]
    groups.beat("a", 2, task_end_offsets=(offset(0, 9),))
    groups.beat("a", -1)
    groups.enter("a")
    assert described() == [((), ()), ((), ())]


def test_a_second_member_gets_its_tasks_after_their_revocation() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    assert active(groups.enter("b")) == {}
    told = groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    assert (active(told), told.member_epoch) == ({"0": {0, 1}}, 2)
    assert groups.beat("b", 3).active_tasks is None
    assert groups.table().state_name == "Reconciling"
    assert groups.beat("a", 2, owns={"0": {0, 1}}).member_epoch == 3
    assert active(groups.beat("b", 3)) == {"0": {2, 3}}
    assert groups.table().state_name == "Stable"


def test_a_member_that_revokes_its_tasks_too_late_is_removed() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    groups.advance(REBALANCE_MS - 1)
    assert set(groups.table().members) == {"a", "b"}
    groups.advance(1)
    assert set(groups.table().members) == {"b"}
    assert active(groups.beat("b", 3)) == {"0": {0, 1, 2, 3}}


def test_a_silent_member_is_removed_after_its_session() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    groups.advance(SESSION_MS - 1)
    assert groups.table().members
    groups.advance(1)
    assert groups.table().state_name == "Empty"
    assert raised(lambda: groups.beat("a", 2))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leaving_members_tasks_are_reassigned_at_once() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    gone = groups.beat("a", -1)
    assert (gone.member_id, gone.member_epoch, gone.status) == ("a", -1, ())
    assert active(groups.beat("b", 3)) == {"0": {0, 1}}


def test_a_member_that_joins_again_keeps_its_tasks() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    answer = groups.enter("a")
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_member_with_a_wrong_epoch_is_fenced(epoch: int) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    code, words = raised(lambda: groups.beat("a", epoch, owns={"0": {0, 7}}))
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert f"member epoch ({epoch}) than the one known by the group coordinator (2)" in words


def test_a_member_that_lost_the_last_response_may_name_its_previous_epoch() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("b", -1)
    groups.beat("a", 2, owns={"0": {0, 1}})
    assert groups.table().members["a"].epoch == 4
    assert groups.beat("a", 2, owns={"0": {0}}).member_epoch == 4
    assert raised(lambda: groups.beat("a", 2))[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_standby_is_assigned_to_another_process_and_never_the_same() -> None:
    groups = groups_with_store(standbys=1)
    one = groups.enter("a", topology=STORE, process_id="p")
    assert (active(one), standby(one)) == ({"0": {0, 1, 2, 3}}, {})
    groups.enter("b", topology=STORE, process_id="p")
    assert {key: tasks.standby for key, tasks in groups.table().targets.items()} == {"a": {}, "b": {}}
    groups.enter("c", topology=STORE, process_id="q")
    targets = groups.table().targets
    of_p = [partition for key in "ab" for partition in targets[key].standby.get("0", ())]
    assert sorted(of_p) == sorted(targets["c"].active["0"])
    assert sorted(targets["c"].standby["0"]) == sorted({0, 1, 2, 3} - targets["c"].active["0"])


def test_a_standby_becomes_active_when_the_active_member_leaves() -> None:
    groups = groups_with_store(standbys=1)
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    table = groups.table()
    had = table.targets["b"].standby["0"]
    groups.beat("a", -1)
    groups.beat("b", 3, owns={})
    assert table.targets["b"].active["0"] == {0, 1, 2, 3} and had


def with_standbys() -> StreamsGroups:
    """Return a group in which a and b have two active tasks each, and those of the other as standbys."""
    groups = groups_with_store(standbys=1)
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    groups.beat("a", 2, owns={"0": {0, 1}}, standbys={"0": {2, 3}})
    groups.beat("b", 3)
    members = groups.table().members
    assert [members[key].assigned.tasks.active for key in "ab"] == [{"0": {0, 1}}, {"0": {2, 3}}]
    assert [members[key].assigned.standby for key in "ab"] == [{"0": {2, 3}}, {"0": {0, 1}}]
    return groups


def test_a_task_that_a_member_gives_up_is_its_standby_at_once() -> None:
    groups = groups_with_store(standbys=1)
    groups.enter("a", topology=STORE)
    assert (active(groups.enter("b", topology=STORE)), standby(groups.beat("b", 3))) == ({}, None)
    told = groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    assert (active(told), standby(told)) == ({"0": {0, 1}}, {"0": {2, 3}})
    assert groups.table().state_name == "Reconciling"


def test_a_standby_becomes_active_without_a_revocation() -> None:
    groups = with_standbys()
    groups.beat("a", -1)
    told = groups.beat("b", 3, owns={"0": {2, 3}}, standbys={"0": {0, 1}})
    assert (active(told), standby(told), told.member_epoch) == ({"0": {0, 1, 2, 3}}, {}, 4)


def test_a_new_group_waits_for_more_members() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    answer = groups.enter("a")
    delayed = {StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured initial rebalance delay."}
    assert (active(answer), statuses(answer), answer.member_epoch) == ({}, delayed, 1)
    groups.advance(1_000)
    groups.enter("b")
    groups.advance(2_000)
    groups.advance(0)
    assert active(groups.beat("a", 1)) == {"0": {1, 3}}
    assert active(groups.beat("b", 1)) == {"0": {0, 2}}


def test_a_group_empty_at_the_end_of_its_delay_starts_another() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    groups.enter("a")
    groups.beat("a", -1)
    groups.advance(3_000)
    assert groups.table().targets == {}
    assert StatusCode.ASSIGNMENT_DELAYED in statuses(groups.enter("b"))


def test_members_that_leave_at_the_end_of_the_delay_leave_no_assignment() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    groups.enter("a")
    groups.elapsed_ms += SESSION_MS
    groups.coordinator.run_due(groups.now_ms)
    assert groups.table().members == {}
    assert not groups.table().is_assigning
    answer = groups.enter("b")
    assert StatusCode.ASSIGNMENT_DELAYED in statuses(answer)
    groups.advance(3_000)
    groups.advance(0)
    assert active(groups.beat("b", answer.member_epoch)) == {"0": {0, 1, 2, 3}}


def test_a_target_is_not_older_than_the_interval_when_another_one_comes() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    assert statuses(groups.enter("b")) == {
        StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    assert groups.table().state_name == "Assigning"
    groups.advance(1_000)
    assert active(groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})) == {"0": {0, 1}}


def test_the_interval_does_not_apply_to_a_group_that_was_empty() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_assignment_interval_ms": 10_000})
    groups.enter("a")
    groups.beat("a", -1)
    table = groups.table()
    assert (table.epoch, table.assignment_epoch, table.assignment_ms) == (3, 3, 0)
    assert active(groups.enter("b")) == {"0": {0, 1, 2, 3}}


@pytest.mark.parametrize(("warmups", "gets"), [(2, {"0": {0, 1}}), (0, {})])
def test_a_member_that_returns_before_the_next_target_gets_its_tasks_again(
    warmups: int, gets: dict[str, set[int]]
) -> None:
    settings = {"group_streams_assignment_interval_ms": 1_000, "group_streams_num_warmup_replicas": warmups}
    groups = StreamsGroups(orders=2, settings=settings)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", -1)
    assert active(groups.enter("a")) == gets
    groups.advance(1_000)
    groups.beat("b", groups.table().members["b"].epoch)
    assert sorted(groups.table().targets) == ["a", "b"]


def test_missing_internal_topics_are_reported_and_delay_the_assignment() -> None:
    groups = StreamsGroups(orders=4)
    heard = groups.hear_enter("a", topology=COUNTS)
    assert statuses(heard.response) == {
        StatusCode.MISSING_INTERNAL_TOPICS: "Internal topics are missing: counts, words"
    }
    assert [(one.name, one.partitions, one.replication_factor, one.configs) for one in heard.missing.values()] == [
        ("counts", 4, 0, {"cleanup.policy": "compact"}),
        ("words", 4, 0, {}),
    ]
    assert (active(heard.response), groups.table().state_name) == ({}, "NotReady")
    groups.make_missing(heard)
    assert active(groups.beat("a", 2)) == {"0": {0, 1, 2, 3}, "1": {0, 1, 2, 3}}


def test_a_deleted_source_revokes_all_tasks_and_a_recreated_one_restores_them() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.delete_topic("orders")
    told = groups.beat("a", 2, owns={"0": {0, 1}})
    assert statuses(told) == {StatusCode.MISSING_SOURCE_TOPICS: "Source topics orders are missing."}
    assert (active(told), groups.table().state_name) == ({}, "NotReady")
    groups.create_topic("orders", 3)
    groups.beat("a", 2, owns={})
    assert groups.table().targets["a"].active == {"0": frozenset({0, 1, 2})}


def test_a_grown_topic_adds_tasks() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.grow_topic("orders", 3)
    assert active(groups.beat("a", 2)) == {"0": {0, 1, 2}}


def test_concurrent_heartbeats_share_one_refresh_of_the_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"t{number}" for number in range(300)]
    groups = StreamsGroups(topics=FakeTopics(**dict.fromkeys(names, 1)))
    epoch = groups.enter("a", topology=topology(subtopology("0", *names))).member_epoch
    groups.table().refresh_at_ms = groups.elapsed_ms
    looks, racks = list[bytes](), groups.topics.racks

    def noted(topic_id: bytes) -> list[list[str]]:
        looks.append(topic_id)
        return racks(topic_id)

    monkeypatch.setattr(groups.topics, "racks", noted)
    first, *others = [groups.hearing("a", epoch) for _ in range(1_000)]
    counts = [0]
    for _ in first:
        counts.append(len(looks))
        next(others.pop())
    counts.append(len(looks))
    assert max(after - before for before, after in pairwise(counts)) <= A_PIECE
    assert len(set(looks)) == 300


def test_a_changed_number_of_standbys_causes_another_assignment() -> None:
    groups = groups_with_store()
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    again = groups.restarted(group_streams_num_standby_replicas=1)
    again.beat("a", 2)
    assert again.table().epoch == 4
    assert again.table().targets["a"].standby == {"0": frozenset({2, 3})}


def test_an_older_topology_epoch_is_stale_and_a_different_topology_refused() -> None:
    groups = StreamsGroups(orders=2, bills=2)
    groups.enter("a", topology=topology(epoch=3))
    told = groups.enter("b", topology=topology(subtopology("0", "bills"), epoch=2))
    assert statuses(told)[StatusCode.STALE_TOPOLOGY] == (
        "The member's topology epoch 2 is behind the group's topology epoch 3."
    )
    for epoch in (3, 4):
        other = topology(subtopology("0", "bills"), epoch=epoch)
        assert raised(partial(groups.enter, "c", topology=other)) == (
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet.",
        )
    assert set(groups.table().members) == {"a", "b"}


@pytest.mark.parametrize("owns", [{"0": {2}}, {"0": {-1}}, {"1": {0}}])
def test_a_member_that_reports_an_unknown_task_is_refused(owns: dict[str, set[int]]) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    assert raised(lambda: groups.beat("a", 2, owns=owns))[0] is ErrorCode.INVALID_REQUEST


def test_one_member_may_request_the_shutdown_of_all() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", -1, shutdown_application=True)
    groups.beat("b", 3, shutdown_application=True)
    words = "Streams group member a encountered a fatal error and requested a shutdown for the entire application."
    assert statuses(groups.enter("c"))[StatusCode.SHUTDOWN_APPLICATION] == words
    groups.beat("b", -1)
    groups.beat("c", -1)
    assert StatusCode.SHUTDOWN_APPLICATION not in statuses(groups.enter("d"))


def test_replacing_a_classic_group_gives_a_temporary_endpoint_epoch() -> None:
    """Apache Kafka counts them in the same way; the next heartbeat names endpoints again."""
    groups = groups_with_store(standbys=1)
    groups.commit({("orders", 0): 7})
    here = Endpoint(host="h", port=1)
    assert groups.hear_enter("a", topology=STORE, user_endpoint=here).response.endpoint_information_epoch == 1
    next_one = groups.hear("a", 2, endpoint_information_epoch=1)
    assert (next_one.wants_endpoints, next_one.response.endpoint_information_epoch) == (True, 0)


def test_members_receive_the_endpoints_and_partitions_of_all_members() -> None:
    groups = groups_with_store(standbys=1)
    here, there = Endpoint(host="h", port=1), Endpoint(host="i", port=65_535)
    first = groups.hear_enter("a", topology=STORE, user_endpoint=here)
    assert (first.wants_endpoints, first.response.endpoint_information_epoch) == (True, 0)
    second = groups.hear_enter("b", topology=STORE, user_endpoint=there)
    assert (second.wants_endpoints, second.response.endpoint_information_epoch) == (True, 1)
    assert not groups.hear("b", 3, endpoint_information_epoch=1).wants_endpoints
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}}, endpoint_information_epoch=1)
    rows = groups.endpoints("a")
    assert [one.user_endpoint for one in rows] == [there, here]
    assert rows[1].active_partitions == (TopicPartition(topic="orders", partitions=(0, 1)),)
    assert groups.endpoints("a")[0] is rows[0], "kept while nothing changes"


def test_a_new_endpoint_is_counted_and_a_member_that_joins_without_one_has_none() -> None:
    groups = groups_with_store()
    groups.enter("a", topology=STORE)
    assert groups.enter("b", topology=STORE).endpoint_information_epoch == 0
    for number, port in enumerate((1, 2, 2), 1):
        epoch = groups.table().members["b"].epoch
        answer = groups.beat("b", epoch, user_endpoint=Endpoint(host="h", port=port))
        assert answer.endpoint_information_epoch == min(number, 2)
        assert [one.user_endpoint.port for one in groups.endpoints("b")] == [port]
    assert groups.enter("b", topology=STORE).endpoint_information_epoch == 3, "a lost endpoint is counted as well"
    assert groups.endpoints("a") == ()


def test_an_endpoint_has_no_partitions_that_its_topics_lack() -> None:
    groups = StreamsGroups(orders=3, bills=1)
    groups.enter("a", topology=topology(subtopology("0", "orders", "bills")))
    groups.enter("b", topology=topology(subtopology("0", "orders", "bills")), user_endpoint=Endpoint(host="h", port=1))
    groups.beat("a", 2, owns={"0": {0, 1, 2}})
    groups.beat("a", 2, owns=groups.table().members["a"].assigned.tasks.active)
    groups.beat("b", 3)
    tasks = tuple(sorted(groups.table().members["b"].assigned.active["0"]))
    (row,) = groups.endpoints("a")
    expected = {"orders": tasks} | ({"bills": (0,)} if 0 in tasks else {})
    assert {one.topic: one.partitions for one in row.active_partitions} == expected
    assert len(tasks) > 1 or tasks != (0,), "partitions that bills lacks"


def test_a_member_that_lost_its_assignment_gets_it_again() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    answer = groups.beat("a", 2, owns={})
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)
    assert groups.beat("a", 2).active_tasks is None


def test_a_member_with_different_tasks_waits_for_the_next_target() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    groups.enter("b")
    assert groups.beat("a", 2, owns={}).active_tasks is None, "some of them go to the other"
    groups.advance(1_000)
    answer = groups.beat("a", 2)
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)


def test_a_lost_response_is_repaired_by_an_unchanged_next_target() -> None:
    groups = StreamsGroups(orders=1, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    groups.enter("b")
    assert groups.beat("a", 2, owns={}).active_tasks is None
    groups.advance(1_000)
    answer = groups.beat("a", 2)
    assert (active(answer), answer.member_epoch) == ({"0": {0}}, 3)
    assert groups.beat("a", 3).active_tasks is None


def test_no_more_than_the_maximum_come_in_and_a_member_may_join_again() -> None:
    groups = StreamsGroups(orders=2, settings={"group_streams_max_size": 1})
    groups.enter("a")
    assert raised(partial(groups.enter, "b")) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The streams group has reached its maximum capacity of 1 members.",
    )
    assert groups.enter("a").member_id == "a"


def test_a_group_whose_members_report_many_offsets_gets_its_target_from_a_job() -> None:
    many = tuple(TaskOffset(subtopology_id="0", partition=at, offset=1) for at in range(targets.OFFSETS_AT_ONCE))
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.beat("a", 2, task_offsets=many)
    assert StatusCode.ASSIGNMENT_DELAYED not in statuses(groups.enter("b"))
    delayed = statuses(groups.enter("c", task_offsets=many[:1]))
    assert delayed[StatusCode.ASSIGNMENT_DELAYED] == "Assignment delayed because the assignment is being computed."


def test_members_of_a_large_group_get_their_tasks_from_a_job() -> None:
    groups = StreamsGroups(orders=2_000)
    groups.works_at_once = False
    answer = groups.enter("a")
    assert statuses(answer) == {
        StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed because the assignment is being computed."
    }
    groups.advance(0)
    assert active(groups.beat("a", answer.member_epoch)) == {"0": set(range(2_000))}


def test_an_assignment_for_a_member_that_left_is_dropped() -> None:
    groups = StreamsGroups(orders=2_000)
    groups.works_at_once = False
    groups.enter("a")
    groups.enter("b")
    jobs = groups.coordinator._jobs
    jobs.run(lambda: True)
    groups.beat("b", -1)
    groups.advance(0)
    assert groups.table().targets.keys() == {"a"}
    assert groups.restarted().table().targets == groups.table().targets
