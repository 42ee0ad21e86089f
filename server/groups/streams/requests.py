"""What a StreamsGroupHeartbeat must look like, whatever the group.

A member is taken in at once, for everybody, and so is a topology; so there are bounds on what they may name.
"""

from __future__ import annotations

from operator import attrgetter

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ..kinds import Refusal, check_none

STATIC_LEAVE_EPOCH = -2
TOPOLOGY_NAMES_MAX = 5_000
"""Subtopologies, and topics, configs and copartitions in them, together: some microseconds each whenever topics change."""
TASKS_MAX = 100_000
"""Tasks that a member may say it has."""
TAGS_MAX = 1_000


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Raise KafkaError INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY, in the order in which Apache Kafka looks."""
    topology, epoch = request.topology, request.member_epoch
    check_none(
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (bool(request.warmup_tasks), "WarmupTasks are not supported yet."),
    )
    if topology is not None:
        check_size(topology)
        if any(map(attrgetter("source_topic_regex"), topology.subtopologies)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    names_tasks, tasks = roles != (None, None, None), 0
    for role in filter(None, roles):
        for one in role[:TASKS_MAX]:
            tasks += 1 + len(one.partitions)
    check_none(
        (request.member_id == "", "MemberId can't be empty."),
        (request.group_id == "", "GroupId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        *(_joining(request) if epoch == 0 else ()),
    )
    if epoch == 0 and topology is not None:
        _check_changelogs(topology)
    tags = len(request.client_tags or ())
    check_none(
        (epoch == STATIC_LEAVE_EPOCH, "InstanceId can't be null."),
        (
            epoch < STATIC_LEAVE_EPOCH,
            f"MemberEpoch is {epoch}, but must be greater than or equal to -2.",
        ),
        (names_tasks and None in roles, "If one task-type is non-null, all must be non-null."),
        (epoch != 0 and topology is not None, "Topology can only be provided when (re-)joining."),
        (tasks > TASKS_MAX, f"Too many tasks in the request ({tasks}, limit {TASKS_MAX})."),
        (tags > TAGS_MAX, f"Too many client tags in the request ({tags}, limit {TAGS_MAX})."),
    )


def _joining(request: StreamsGroupHeartbeatRequest) -> tuple[Refusal, ...]:
    return (
        (request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (request.active_tasks != (), "ActiveTasks must be empty when (re-)joining."),
        (request.standby_tasks != (), "StandbyTasks must be empty when (re-)joining."),
        (request.warmup_tasks != (), "WarmupTasks must be empty when (re-)joining."),
        (request.topology is None, "Topology must be non-null when (re-)joining."),
    )


def _check_changelogs(topology: Topology) -> None:
    for one in topology.subtopologies:
        for topic in one.state_changelog_topics:
            if topic.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
                    f" {topic.partitions}.",
                )


def check_size(topology: Topology) -> None:
    """Raise KafkaError STREAMS_INVALID_TOPOLOGY for one that would take long whenever topics change."""
    left = TOPOLOGY_NAMES_MAX - len(topology.subtopologies)
    for one in topology.subtopologies:
        topics = (*one.state_changelog_topics, *one.repartition_source_topics)
        left -= len(topics) + len(one.source_topics) + len(one.source_topic_regex) + len(one.repartition_sink_topics)
        left -= len(one.copartition_groups)
        if left >= 0:  # else it would take long to look further
            for topic in topics:
                left -= len(topic.topic_configs)
            for group in one.copartition_groups:
                left -= len(group.source_topics) + len(group.repartition_source_topics)
        if left < 0:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Too many subtopologies, topics and configs in the topology (limit {TOPOLOGY_NAMES_MAX}).",
            )
