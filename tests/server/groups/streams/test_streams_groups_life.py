"""A streams group from the first member to the last: the tasks of each member, and the answers (KIP-1071)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, TopicPartition
from ottla.server.config.group_configs import GroupConfig
from ottla.server.coordination.jobs import A_PIECE
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


def test_members_are_told_how_often_to_send_offsets_of_tasks() -> None:
    settings = {"groups": {"g": GroupConfig({}, {"streams.task.offset.interval.ms": 20_000})}}
    assert StreamsGroups(orders=4, settings=settings).enter("a").task_offset_interval_ms == 20_000
    assert StreamsGroups(orders=4).enter("a").task_offset_interval_ms == 60_000


def test_who_has_nothing_new_is_told_nothing() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    answer = groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    assert (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks) == (None, None, None)


def test_a_second_member_gets_its_tasks_once_the_first_has_given_them_up() -> None:
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


def test_who_does_not_give_up_its_tasks_in_time_is_thrown_out() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    groups.advance(REBALANCE_MS - 1)
    assert set(groups.table().members) == {"a", "b"}
    groups.advance(1)
    assert set(groups.table().members) == {"b"}
    assert active(groups.beat("b", 3)) == {"0": {0, 1, 2, 3}}


def test_a_silent_member_goes_after_its_session() -> None:
    groups = StreamsGroups(orders=4)
    groups.enter("a")
    groups.advance(SESSION_MS - 1)
    assert groups.table().members
    groups.advance(1)
    assert groups.table().state_name == "Empty"
    assert raised(lambda: groups.beat("a", 2))[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_leaves_its_tasks_to_others_at_once() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    gone = groups.beat("a", -1)
    assert (gone.member_id, gone.member_epoch, gone.status) == ("a", -1, ())
    assert active(groups.beat("b", 3)) == {"0": {0, 1}}


def test_who_joins_again_keeps_what_it_has() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    answer = groups.enter("a")
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)


@pytest.mark.parametrize("epoch", [1, 3])
def test_who_names_an_epoch_that_is_not_its_own_is_fenced(epoch: int) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    code, words = raised(lambda: groups.beat("a", epoch, owns={"0": {0, 7}}))
    assert code is ErrorCode.FENCED_MEMBER_EPOCH
    assert f"member epoch ({epoch}) than the one known by the group coordinator (2)" in words


def test_who_lost_our_last_answer_may_name_the_epoch_before_with_what_it_may_have() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("b", -1)
    groups.beat("a", 2, owns={"0": {0, 1}})
    assert groups.table().members["a"].epoch == 4
    assert groups.beat("a", 2, owns={"0": {0}}).member_epoch == 4
    assert raised(lambda: groups.beat("a", 2))[0] is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_standby_goes_to_another_process_and_never_to_the_same() -> None:
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


def test_a_standby_becomes_active_when_the_other_member_goes() -> None:
    groups = groups_with_store(standbys=1)
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    table = groups.table()
    had = table.targets["b"].standby["0"]
    groups.beat("a", -1)
    groups.beat("b", 3, owns={})
    assert table.targets["b"].active["0"] == {0, 1, 2, 3} and had


def test_a_task_changes_its_role_in_a_process_only_after_it_was_given_up() -> None:
    groups = groups_with_store(standbys=1)
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})
    groups.beat("a", 2, owns={"0": {0, 1}})
    groups.beat("b", 3)
    b = groups.table().members["b"]
    assert {key: set(one) for key, one in b.assigned.active.items()} == {"0": {2, 3}}
    assert b.assigned.standby == {"0": {0, 1}}
    groups.beat("a", -1)
    told = groups.beat("b", 3, owns={"0": {2, 3}}, standbys={"0": {0, 1}})
    assert (active(told), standby(told)) == ({"0": {2, 3}}, {})
    groups.beat("b", 3, owns={"0": {2, 3}})
    assert active(groups.beat("b", groups.table().members["b"].epoch, owns={"0": {2, 3}})) == {"0": {0, 1, 2, 3}}


def test_a_new_group_waits_for_more_members() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    answer = groups.enter("a")
    delayed = {StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured initial rebalance delay."}
    assert (active(answer), statuses(answer), answer.member_epoch) == ({}, delayed, 1)
    groups.advance(1_000)
    groups.enter("b")
    groups.advance(2_000)
    groups.advance(0)
    assert active(groups.beat("a", 1)) == {"0": {0, 2}}
    assert active(groups.beat("b", 1)) == {"0": {1, 3}}


def test_a_group_that_is_empty_when_its_wait_is_over_waits_anew_with_its_next_member() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    groups.enter("a")
    groups.beat("a", -1)
    groups.advance(3_000)
    assert groups.table().targets == {}
    assert StatusCode.ASSIGNMENT_DELAYED in statuses(groups.enter("b"))


def test_members_that_go_in_the_turn_in_which_the_wait_is_over_leave_nothing_to_assign() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    groups.enter("a")
    groups.elapsed_ms += SESSION_MS
    groups.coordinator.run_due(groups.now_ms)
    assert groups.table().members == {}
    assert not groups.table().is_assigning
    assert StatusCode.ASSIGNMENT_DELAYED in statuses(groups.enter("b"))
    groups.advance(3_000)
    groups.advance(0)
    assert active(groups.beat("b", 1)) == {"0": {0, 1, 2, 3}}


def test_a_target_is_not_older_than_the_interval_when_another_one_comes() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    assert statuses(groups.enter("b")) == {
        StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    assert groups.table().state_name == "Assigning"
    groups.advance(1_000)
    assert active(groups.beat("a", 2, owns={"0": {0, 1, 2, 3}})) == {"0": {0, 1}}


def test_the_interval_holds_for_a_group_that_has_waited_for_members_again() -> None:
    settings = {"group_streams_assignment_interval_ms": 10_000, "group_streams_initial_rebalance_delay_ms": 3_000}
    groups = StreamsGroups(orders=4, settings=settings)
    groups.enter("a")
    groups.advance(3_000)
    groups.beat("a", -1)
    groups.enter("b")
    groups.advance(3_000)
    assert groups.table().state_name == "Assigning"
    interval = {StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."}
    assert statuses(groups.beat("b", groups.table().members["b"].epoch)) == interval
    groups.advance(7_000)
    assert active(groups.beat("b", groups.table().members["b"].epoch)) == {"0": {0, 1, 2, 3}}


def test_internal_topics_are_asked_for_and_nothing_is_assigned_before_they_are_there() -> None:
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


def test_a_source_that_goes_takes_all_tasks_with_it_and_one_that_comes_back_brings_them() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.delete_topic("orders")
    told = groups.beat("a", 2, owns={"0": {0, 1}})
    assert statuses(told) == {StatusCode.MISSING_SOURCE_TOPICS: "Source topics orders are missing."}
    assert (active(told), groups.table().state_name) == ({}, "NotReady")
    groups.create_topic("orders", 3)
    groups.beat("a", 2, owns={})
    assert groups.table().targets["a"].active == {"0": frozenset({0, 1, 2})}


def test_a_topic_that_grows_brings_more_tasks() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.grow_topic("orders", 3)
    assert active(groups.beat("a", 2)) == {"0": {0, 1, 2}}


def test_when_topics_are_looked_at_again_heartbeats_do_not_undo_each_others_looks(
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


def test_another_number_of_standbys_is_another_assignment() -> None:
    groups = groups_with_store()
    groups.enter("a", topology=STORE)
    groups.enter("b", topology=STORE)
    again = groups.restarted(group_streams_num_standby_replicas=1)
    again.beat("a", 2)
    assert again.table().epoch == 4
    assert again.table().targets["a"].standby == {"0": frozenset({2, 3})}


def test_a_topology_of_an_older_epoch_is_stale_and_another_one_is_refused() -> None:
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
def test_who_says_it_has_a_task_that_there_is_not_is_refused(owns: dict[str, set[int]]) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    assert raised(lambda: groups.beat("a", 2, owns=owns))[0] is ErrorCode.INVALID_REQUEST


def test_one_member_may_ask_all_to_end() -> None:
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


def test_in_the_place_of_a_classic_group_the_first_member_hears_of_an_endpoint_epoch_that_does_not_last() -> None:
    """Apache Kafka 4.3.1 counts them in the same way; the next heartbeat names endpoints again."""
    groups = groups_with_store(standbys=1)
    groups.commit({("orders", 0): 7})
    here = Endpoint(host="h", port=1)
    assert groups.hear_enter("a", topology=STORE, user_endpoint=here).response.endpoint_information_epoch == 1
    next_one = groups.hear("a", 2, endpoint_information_epoch=1)
    assert (next_one.wants_endpoints, next_one.response.endpoint_information_epoch) == (True, 0)


def test_members_hear_which_of_them_serves_what() -> None:
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


def test_who_lost_the_answer_with_its_tasks_hears_of_them_when_it_says_it_has_none() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    answer = groups.beat("a", 2, owns={})
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)
    assert groups.beat("a", 2).active_tasks is None


def test_who_says_it_has_other_tasks_is_told_with_the_next_target_while_one_is_to_come() -> None:
    groups = StreamsGroups(orders=4, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    groups.enter("b")
    assert groups.beat("a", 2, owns={}).active_tasks is None, "some of them go to the other"
    groups.advance(1_000)
    answer = groups.beat("a", 2)
    assert (active(answer), answer.member_epoch) == ({"0": {0, 1}}, 2)


def test_who_lost_its_answer_is_told_of_tasks_that_the_next_target_leaves_as_they_are() -> None:
    groups = StreamsGroups(orders=1, settings={"group_streams_assignment_interval_ms": 1_000})
    groups.enter("a")
    groups.enter("b")
    assert groups.beat("a", 2, owns={}).active_tasks is None
    groups.advance(1_000)
    answer = groups.beat("a", 2)
    assert (active(answer), answer.member_epoch) == ({"0": {0}}, 3)
    assert groups.beat("a", 3).active_tasks is None


def test_no_more_than_the_maximum_come_in_and_who_is_in_may_not_join_again() -> None:
    groups = StreamsGroups(orders=2, settings={"group_streams_max_size": 1})
    groups.enter("a")
    for member in ("a", "b"):
        assert raised(partial(groups.enter, member)) == (
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The streams group has reached its maximum capacity of 1 members.",
        )


def test_members_of_a_large_group_get_their_tasks_from_a_job() -> None:
    groups = StreamsGroups(orders=2_000)
    groups.works_at_once = False
    answer = groups.enter("a")
    assert statuses(answer) == {
        StatusCode.ASSIGNMENT_DELAYED: "Assignment delayed because the assignment is being computed."
    }
    groups.advance(0)
    assert active(groups.beat("a", answer.member_epoch)) == {"0": set(range(2_000))}


def test_what_was_made_for_a_member_that_went_meanwhile_is_not_kept() -> None:
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
