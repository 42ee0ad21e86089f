"""Records of streams groups: a restart needs nothing else, before and after compaction. Other APIs on streams groups: offsets,
deletion, other protocols, lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_groups import ListedGroup
from ottla.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from ottla.protocol.messages.streams_group_log import (
    RECORD_TYPES,
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from ottla.server.coordination.jobs import to_the_end
from ottla.server.groups.records import read_record, write_record
from ottla.server.groups.streams.member import StreamsMemberState
from support.groups.consumer_groups import raised
from support.groups.streams_groups import (
    COUNTS,
    StreamsGroups,
    active,
    compacted,
    info,
    subtopology,
    table_of,
    topology,
)

KEPT = topology(subtopology("0", "orders", changelogs=[info("kept")]))


def listed(groups: StreamsGroups, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    return groups.list_groups(range(len(groups.store.partitions)), states, types)


def busy() -> StreamsGroups:
    """Return a group during a rebalance, with a record of each type."""
    groups = StreamsGroups(orders=5, kept=5, settings={"group_streams_num_standby_replicas": 1})
    tags = (KeyValue(key="zone", value="z"),)
    groups.enter("a", topology=KEPT, rack_id="r", user_endpoint=Endpoint(host="h", port=1), client_tags=tags)
    groups.enter("b", topology=KEPT)
    groups.enter("c", topology=KEPT)
    groups.beat("a", 2, owns={"0": range(5)})
    groups.beat("b", 3)
    return groups


def test_a_restart_restores_the_group_after_compaction() -> None:
    groups = busy()
    assert table_of(groups.restarted()) == table_of(groups)
    assert table_of(compacted(groups)) == table_of(groups)
    partition = groups.coordinator.partition_for("g")
    kinds = {int.from_bytes(key[:2]) for key in groups.store.table(partition)}
    assert kinds == RECORD_TYPES.keys()


def test_members_have_a_full_session_after_a_restart() -> None:
    again = busy().restarted()
    again.advance(9_999)
    assert set(again.table().members) == {"a", "b", "c"}
    again.advance(1)
    assert set(again.table().members) == {"c"}, "the others had tasks to give up"
    again.advance(35_000)
    assert again.table().state_name == "Empty"


def test_work_continues_after_a_restart() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    again = groups.restarted()
    answer = again.beat("a", 2, owns={"0": {0, 1}})
    assert (answer.member_epoch, answer.active_tasks, answer.status) == (2, None, ())
    assert again.described().topology == groups.described().topology


def test_a_deleted_group_leaves_no_records() -> None:
    groups = busy()
    assert (
        raised(lambda: to_the_end(groups.coordinator.delete_group("g", groups.now_ms)))[0] is ErrorCode.NON_EMPTY_GROUP
    )
    for member in "abc":
        groups.beat(member, -1)
    to_the_end(groups.coordinator.delete_group("g", groups.now_ms))
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}
    assert raised(lambda: groups.described()) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_a_refused_write_changes_nothing() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    before = table_of(groups)
    groups.store.failure = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError):
        groups.enter("b")
    with pytest.raises(KafkaError):
        groups.beat("a", -1)
    groups.advance(45_000)
    assert table_of(groups) == before
    groups.store.failure = None
    groups.advance(500)
    assert groups.table().state_name == "Empty"


def test_an_empty_classic_group_becomes_a_streams_group_with_its_offsets() -> None:
    groups = StreamsGroups(orders=2)
    groups.commit({("orders", 0): 7})
    groups.enter("a")
    for one in (groups, groups.restarted(), compacted(groups)):
        assert one.table().members.keys() == {"a"}
        shard = one.coordinator.shard_of("g")
        assert shard.offsets.of_group("g")["orders", 0].offset == 7


def test_an_empty_streams_group_becomes_a_classic_group() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    assert groups.join("g").answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    groups.beat("a", -1)
    groups.join("g")
    assert [one.group_type for one in listed(groups)] == ["classic"]
    assert [one.group_type for one in listed(groups.restarted())] == ["classic"]


def test_requests_of_other_protocols_find_no_member() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    assert (
        groups.coordinator.heartbeat(groups.coordinator.shard_for("g"), "g", "a", None, 2)
        is ErrorCode.UNKNOWN_MEMBER_ID
    )
    classic = to_the_end(groups.coordinator.describe_group("g", 6))
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )
    groups.join("h")
    assert raised(lambda: groups.described("h")) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group h is not a streams group.")


def test_the_group_is_listed_with_its_type_and_state() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a", topology=COUNTS)
    (row,) = listed(groups, types=["Streams"], states=["notready"])
    assert (row.group_id, row.protocol_type, row.group_state, row.group_type) == ("g", "streams", "NotReady", "streams")
    assert listed(groups, types=["consumer"]) == []


EPOCHS = [
    (2, 9, ErrorCode.NONE),
    (3, 9, ErrorCode.NONE),
    (4, 9, ErrorCode.STALE_MEMBER_EPOCH),
    (1, 9, ErrorCode.STALE_MEMBER_EPOCH),
    (-1, 9, ErrorCode.STALE_MEMBER_EPOCH),
    (3, 8, ErrorCode.UNSUPPORTED_VERSION),
]


@pytest.mark.parametrize(("epoch", "version", "code"), EPOCHS)
def test_a_member_commits_with_epochs_in_which_it_owned_the_task(epoch: int, version: int, code: ErrorCode) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2, owns={"0": {0, 1}})
    groups.beat("a", 2, owns={"0": {0}})
    assert groups.table().members["a"].epoch == 3
    done = raised(lambda: groups.commit({("orders", 0): 7}, member="a", generation=epoch, version=version))
    assert done[0] is code


def test_commits_for_unowned_tasks_and_unread_topics_are_refused() -> None:
    groups = StreamsGroups(orders=2, bills=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2, owns={"0": {0, 1}})
    groups.beat("a", 2, owns={"0": {0}})
    for place in (("orders", 1), ("bills", 0)):
        refused = raised(partial(groups.commit, {place: 7}, member="a", generation=2, version=9))
        assert refused[0] is ErrorCode.STALE_MEMBER_EPOCH
    unknown = raised(lambda: groups.commit({("orders", 0): 7}, member="x", generation=2, version=9))
    assert unknown[0] is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_source_topics_are_kept_while_members_exist() -> None:
    groups = StreamsGroups(orders=2, bills=2)
    groups.enter("a")
    table = groups.table()
    assert table.subscribes_to("orders") and not table.subscribes_to("bills")
    groups.beat("a", -1)
    assert not groups.table().subscribes_to("orders")


def test_a_description_contains_current_and_target_assignments() -> None:
    groups = busy()
    described = groups.described()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 4, 4)
    assert described.topology is not None and described.topology.subtopologies is not None
    (only,) = described.topology.subtopologies
    assert [(one.name, one.partitions) for one in only.state_changelog_topics] == [("kept", 5)]
    (again,) = groups.restarted().described().topology.subtopologies or ()  # type: ignore[union-attr]
    assert [(one.name, one.partitions) for one in again.state_changelog_topics] == [("kept", 0)], (
        "nobody has looked yet"
    )
    first = described.members[0]
    assert (first.member_id, first.rack_id, first.process_id, first.topology_epoch) == ("a", "r", "process-a", 0)
    assert [(one.key, one.value) for one in first.client_tags] == [("zone", "z")]
    assert (first.user_endpoint.host, first.user_endpoint.port) == ("h", 1)  # type: ignore[union-attr]
    assert len(first.target_assignment.active_tasks[0].partitions) == 2


def test_records_of_later_brokers_and_of_earlier_ones_are_read() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    tasks = (OwnedTaskIds(subtopology_id="0", partitions=(0, 1)),)
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, state=9, active_tasks=tasks
    )
    pair = write_record(key, value)
    assert read_record(*pair) == (key, value)
    groups.store.append(groups.coordinator.partition_for("g"), [pair], groups.now_ms)
    again = groups.restarted()
    member = again.table().members["a"]
    assert (member.state, member.assigned.active) == (StreamsMemberState.UNKNOWN, {"0": {0: 2, 1: 2}})
    assert raised(lambda: again.beat("a", 2, owns={"0": {0}}))[0] is ErrorCode.FENCED_MEMBER_EPOCH
    again.beat("a", 2, owns={})
    assert again.table().members["a"].state is StreamsMemberState.STABLE
    assert active(again.enter("a")) == {"0": {0, 1}}
