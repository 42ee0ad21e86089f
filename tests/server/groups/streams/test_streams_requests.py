"""StreamsGroupHeartbeats that are refused for any group, with the code and the message of Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat import (
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)
from support.groups.consumer_groups import raised
from support.groups.streams_groups import StreamsGroups, ids_of, info, subtopology, topology
from support.noted import each_case

REQUEST, TOPOLOGY = ErrorCode.INVALID_REQUEST, ErrorCode.STREAMS_INVALID_TOPOLOGY
REGEX = Topology(subtopologies=(Subtopology(subtopology_id="0", source_topic_regex=("o.*",)),))
OFFSETS = (TaskOffset(subtopology_id="0", partition=0, offset=1),)
TWICE = "Task offsets contain a duplicate entry for subtopology 0 and partition 0."
JOINING: list[tuple[dict[str, Any], ErrorCode, str]] = [
    ({"instance_id": ""}, REQUEST, "InstanceId can't be empty."),
    ({"task_offsets": OFFSETS * 2}, REQUEST, TWICE),
    ({"task_offsets": (), "task_end_offsets": OFFSETS * 2}, REQUEST, TWICE),
    (
        {"task_offsets": OFFSETS * 10_000, "task_end_offsets": OFFSETS * 10_001},
        REQUEST,
        "Too many task offsets in the request (20001, limit 20000).",
    ),
    ({"topology": REGEX}, REQUEST, "Regular expressions for source topics are not supported yet."),
    ({"member": ""}, REQUEST, "MemberId can't be empty."),
    ({"group": ""}, REQUEST, "GroupId can't be empty."),
    ({"rack_id": ""}, REQUEST, "RackId can't be empty."),
    ({"rebalance_timeout_ms": -1}, REQUEST, "RebalanceTimeoutMs must be provided in first request."),
    ({"owns": None}, REQUEST, "ActiveTasks must be empty when (re-)joining."),
    (
        {"owns": None, "active_tasks": (), "standby_tasks": ()},
        REQUEST,
        "WarmupTasks must be empty when (re-)joining.",
    ),
    ({"owns": {"0": {0}}}, REQUEST, "ActiveTasks must be empty when (re-)joining."),
    ({"owns": {}, "standbys": {"0": {0}}}, REQUEST, "StandbyTasks must be empty when (re-)joining."),
    ({"topology": None}, REQUEST, "Topology must be non-null when (re-)joining."),
    (
        {"topology": topology(subtopology("0", "orders", changelogs=[info("c", 4)]))},
        TOPOLOGY,
        "Changelog topic c must have an undefined partition count, but it is set to 4.",
    ),
    (
        {"topology": topology(subtopology("0", *(f"t{n}" for n in range(5_000))))},
        TOPOLOGY,
        "Too many subtopologies, topics and configs in the topology (limit 5000).",
    ),
    (
        {"client_tags": tuple(KeyValue(key=str(n), value="") for n in range(1_001))},
        REQUEST,
        "Too many client tags in the request (1001, limit 1000).",
    ),
]
STAYING: list[tuple[int, dict[str, Any], str]] = [
    (2, {"task_offsets": OFFSETS * 2}, TWICE),
    (
        2,
        {"active_tasks": (), "standby_tasks": (), "warmup_tasks": (TaskIds(subtopology_id="0", partitions=(7,)),)},
        "Task 7 for subtopology 0 is invalid. Number of tasks for this subtopology: 2",
    ),
    (-2, {}, "InstanceId can't be null."),
    (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    (2, {"active_tasks": ()}, "If one task-type is non-null, all must be non-null."),
    (2, {"topology": topology()}, "Topology can only be provided when (re-)joining."),
    (2, {"owns": {"0": range(100_000)}}, "Too many tasks in the request (100001, limit 100000)."),
]


@each_case("fields, code, words", JOINING)
def test_invalid_joins_are_refused(fields: dict[str, Any], code: ErrorCode, words: str) -> None:
    groups = StreamsGroups(orders=2)
    fields = {"member": "a", **fields}
    assert raised(lambda: groups.enter(**fields)) == (code, words)
    assert groups.store.appends == 0


@pytest.mark.parametrize(("epoch", "fields", "words"), STAYING)
def test_invalid_heartbeats_are_refused_and_change_nothing(epoch: int, fields: dict[str, Any], words: str) -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    before = groups.store.appends
    assert raised(lambda: groups.beat("a", epoch, **fields)) == (REQUEST, words)
    assert groups.store.appends == before


@pytest.mark.parametrize(
    ("epoch", "words"),
    [(0, "is not a streams group."), (1, "is not a streams group."), (-1, "is not a streams group.")],
)
def test_a_group_of_another_type_refuses_members(epoch: int, words: str) -> None:
    groups = StreamsGroups(orders=2)
    groups.join("g")
    enter = groups.enter if epoch == 0 else lambda member: groups.beat(member, epoch)
    assert raised(lambda: enter("a")) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group g {words}")


@pytest.mark.parametrize(("epoch", "words"), [(1, "Streams group g not found."), (-1, "Group g not found.")])
def test_a_missing_group_is_not_found(epoch: int, words: str) -> None:
    groups = StreamsGroups(orders=2)
    assert raised(lambda: groups.beat("a", epoch)) == (ErrorCode.GROUP_ID_NOT_FOUND, words)


def test_a_repeated_subtopology_is_parsed_once() -> None:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    rows = ids_of({"0": {0}}) * 30_000
    answer = groups.beat("a", 2, active_tasks=rows, standby_tasks=(), warmup_tasks=())
    assert answer.member_epoch == 2
