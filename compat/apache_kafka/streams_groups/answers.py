"""Answers as plain tuples, so that those of two brokers can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_describe import DescribedGroup
from ottla.protocol.messages.streams_group_describe import Topology as DescribedTopology
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse

Answer = tuple[Any, ...]
_TOPOLOGY = 6
"""The position of the topology in a described group."""
Tasks = dict[str, tuple[int, ...]]
"""Subtopology -> partitions, in order."""
Roles = dict[str, Tasks]
"""Tasks by role."""
ROLES = ("active", "standby", "warmup")


class HeartbeatResult(NamedTuple):
    """The answer to a heartbeat. Everything is compared but `throttle_time_ms`, which is 0 without quotas."""

    code: str
    message: str | None
    member: str
    epoch: int
    interval_ms: int
    recovery: tuple[int, int, int]
    """Acceptable recovery lag, in version 0, interval of task offsets."""
    statuses: tuple[tuple[int, str], ...] | None
    active: Tasks | None
    standby: Tasks | None
    warmup: Tasks | None
    must_describe: bool
    endpoint_epoch: int
    endpoints: list[Answer] | None

    @property
    def is_well(self) -> bool:
        return self.code == "NONE"

    @property
    def has_no_member(self) -> bool:
        """Whether the group does not have the member. Another reason of the same code is an unknown instance id."""
        return self.code == "UNKNOWN_MEMBER_ID" and "Instance" not in (self.message or "")

    @property
    def roles(self) -> Roles | None:
        """The tasks in the answer; None if it has none."""
        return None if self.active is None else {role: getattr(self, role) or {} for role in ROLES}

    def has_status(self, *codes: int) -> bool:
        return any(code in codes for code, _ in self.statuses or ())


def in_short(answer: Answer) -> str:
    """Return the answer shortened for a printed line."""
    if isinstance(answer, HeartbeatResult):
        return f"{answer.code} {answer.message or ''} epoch {answer.epoch} {answer.statuses} {answer.active} {answer.standby}"
    return str(answer)


def heard(answer: StreamsGroupHeartbeatResponse) -> HeartbeatResult:
    return HeartbeatResult(
        code_name(answer.error_code),
        answer.error_message,
        answer.member_id,
        answer.member_epoch,
        answer.heartbeat_interval_ms,
        (
            answer.acceptable_recovery_lag,
            answer.acceptable_recovery_lag_legacy,
            answer.task_offset_interval_ms,
        ),
        None if answer.status is None else tuple((one.status_code, one.status_detail) for one in answer.status),
        tasks(answer.active_tasks),
        tasks(answer.standby_tasks),
        tasks(answer.warmup_tasks),
        answer.topology_description_required,
        answer.endpoint_information_epoch,
        None
        if answer.partitions_by_user_endpoint is None
        else sorted(
            (
                (one.user_endpoint.host, one.user_endpoint.port),
                sorted((part.topic, sorted(part.partitions)) for part in one.active_partitions),
                sorted((part.topic, sorted(part.partitions)) for part in one.standby_partitions),
            )
            for one in answer.partitions_by_user_endpoint
        ),
    )


def described(found: DescribedGroup) -> Answer:
    members = sorted(
        (
            one.member_id,
            one.member_epoch,
            one.instance_id,
            one.rack_id or "",
            one.client_id,
            one.client_host,
            one.topology_epoch,
            one.process_id,
            one.user_endpoint and (one.user_endpoint.host, one.user_endpoint.port),
            sorted((tag.key, tag.value) for tag in one.client_tags),
            ([(each.subtopology_id, each.partition, each.offset) for each in one.task_offsets], one.is_classic),
            [(each.subtopology_id, each.partition, each.offset) for each in one.task_end_offsets],
            [
                (tasks(each.active_tasks), tasks(each.standby_tasks), tasks(each.warmup_tasks))
                for each in (one.assignment, one.target_assignment)
            ],
        )
        for one in found.members
    )
    return (
        code_name(found.error_code),
        found.error_message,
        found.group_id,
        found.group_state,
        found.group_epoch,
        found.assignment_epoch,
        None if found.topology is None else _topology(found.topology),
        members,
        found.authorized_operations,
        (found.topology_description_status, found.topology_description, found.assignor_name),
    )


def _topology(topology: DescribedTopology) -> Answer:
    return (
        topology.epoch,
        [
            (
                one.subtopology_id,
                one.source_topics,
                one.repartition_sink_topics,
                [_topic(topic) for topic in one.state_changelog_topics],
                [_topic(topic) for topic in one.repartition_source_topics],
            )
            for one in topology.subtopologies or ()
        ],
    )


def without_counts(answer: Answer) -> Answer:
    """Return the answer to a look, without partition counts of internal topics."""
    head, *others = answer
    epoch, rows = head[_TOPOLOGY] or (None, [])
    plain = [(*row[:3], *([(name, 0, *rest) for name, _, *rest in topics] for topics in row[3:])) for row in rows]
    return ((*head[:_TOPOLOGY], (epoch, plain), *head[_TOPOLOGY + 1 :]), *others)


def _topic(topic: Any) -> Answer:
    configs = sorted((config.key, config.value) for config in topic.topic_configs)
    return topic.name, topic.partitions, topic.replication_factor, configs


def tasks(rows: Iterable[Any] | None) -> Tasks | None:
    return None if rows is None else {one.subtopology_id: tuple(sorted(one.partitions)) for one in rows}


def code_name(code: int) -> str:
    return ErrorCode(code).name
