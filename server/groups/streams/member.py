"""One member of a streams group, as it was last written. Members are values: a change makes a new object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import Endpoint, StreamsGroupHeartbeatRequest, Topology
from ..kinds import check_none

LEAVE_EPOCH = -1
"""Epoch of a member that leaves."""
STATIC_LEAVE_EPOCH = -2
"""Epoch of a static member that leaves for a while. Its tasks stay its own until its session expires."""

Places: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions, each of which is a task. Every subtopology has partitions."""
Epochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch in which it was assigned. Commits with an earlier epoch are stale."""

_NONE: Places = {}
_NO_EPOCHS: Epochs = {}


class StreamsTasks(NamedTuple):
    """Target tasks of a member, or the tasks that it claims to have."""

    active: Places = _NONE
    standby: Places = _NONE
    warmup: Places = _NONE


class Owned(NamedTuple):
    """Tasks that a member has, or must give up."""

    active: Epochs = _NO_EPOCHS
    standby: Places = _NONE
    warmup: Places = _NONE

    @property
    def tasks(self) -> StreamsTasks:
        """The tasks without epochs."""
        return StreamsTasks({key: frozenset(one) for key, one in self.active.items()}, self.standby, self.warmup)

    def shares_any(self, tasks: StreamsTasks) -> bool:
        """Whether any of `tasks` is among these, in the same role."""
        return any(
            not tasks_of_one.isdisjoint(mine.get(subtopology, ()))
            for mine, named in zip(self, tasks, strict=True)
            for subtopology, tasks_of_one in named.items()
        )

    def holds(self, tasks: StreamsTasks) -> bool:
        """Whether all of `tasks` are among these, in the same role."""
        return all(
            partition in _partitions_of(mine, subtopology)
            for mine, named in zip(self, tasks, strict=True)
            for subtopology, partitions in named.items()
            for partition in partitions
        )


def _partitions_of(mine: Mapping[str, Collection[int]], subtopology: str) -> Collection[int]:
    return mine.get(subtopology, ())


NO_TASKS = StreamsTasks()
NOTHING = Owned()


class StreamsMemberState(IntEnum):
    """Progress of a member towards the target assignment; numbers as in its records."""

    STABLE = 1
    """The member has its target of its epoch."""
    UNREVOKED_TASKS = 2
    """The member must give up tasks, and has not confirmed that it did."""
    UNRELEASED_TASKS = 3
    """The member waits for tasks that other members have not given up yet."""
    UNKNOWN = 127
    """State that a newer coordinator wrote; the member must start from the beginning."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """
    Attributes:
        epoch: Epoch of the target assignment that the member has reached; 0 before the first.
        previous_epoch: The epoch before, which the member may still send if the last answer was lost.
        instance_id: Id of a static member, which another member id may take over after it left for a while.
        topology_epoch: Epoch of the topology that the member has sent.
        process_id: Id of the member's process. Its members share a state directory, so the process has a task only once, in one
            role.
        user_endpoint: Endpoint for questions about the member's state (interactive queries).
        assigned: Tasks that the member may use.
        revoking: Tasks that the member must give up, and owns until it confirms that.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """Return the epoch since which the member has this active task; None if it does not have it."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch


def away(member: StreamsMember) -> StreamsMember:
    """Return a static member that leaves for a while. Its tasks stay with it, and the member that replaces it may commit in any
    epoch."""
    active = {key: dict.fromkeys(epochs, 0) for key, epochs in member.assigned.active.items()}
    return replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=member.assigned._replace(active=active), revoking=NOTHING)


def returned(member: StreamsMember, member_id: str) -> StreamsMember:
    """Return a static member that joins again, perhaps under another id: it keeps its tasks, and its epoch starts again."""
    return replace(member, member_id=member_id, epoch=0, previous_epoch=0)


def has_other_inputs(old: StreamsMember, new: StreamsMember) -> bool:
    """Whether a static member changed so that another target must be made."""
    return _inputs(old) != _inputs(new)


_inputs = attrgetter("topology_epoch", "rack_id", "client_tags", "process_id")

TOPOLOGY_NAMES_MAX = 5_000
"""Maximum number of subtopologies, and of topics, configs and copartitions in them, together. Each takes some microseconds
whenever topics change."""
TASKS_MAX = 100_000
"""Maximum number of tasks that a member may claim to have."""
OFFSETS_MAX = 20_000
"""Maximum number of offsets that a member may report of its tasks. They remain in memory."""
TAGS_MAX = 1_000


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Check a StreamsGroupHeartbeat, without regard to the group.

    A member and a topology are added in one piece, during which other requests wait. So the numbers of their elements are bounded.

    Raises:
        KafkaError: INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY; the checks are in Apache Kafka's order.
    """
    topology, epoch = request.topology, request.member_epoch
    if topology is not None:
        check_size(topology)
        if any(map(attrgetter("source_topic_regex"), topology.subtopologies)):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Regular expressions for source topics are not supported yet.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    names_tasks, tasks = roles != (None, None, None), 0
    for role in filter(None, roles):
        for one in role[:TASKS_MAX]:
            tasks += 1 + len(one.partitions)
    tags, joins = len(request.client_tags or ()), epoch == 0
    offsets = len(request.task_offsets or ()) + len(request.task_end_offsets or ())
    check_none(
        (request.member_id == "", "MemberId can't be empty."),
        (request.group_id == "", "GroupId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (joins and request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (joins and request.active_tasks != (), "ActiveTasks must be empty when (re-)joining."),
        (joins and request.standby_tasks != (), "StandbyTasks must be empty when (re-)joining."),
        (joins and request.warmup_tasks != (), "WarmupTasks must be empty when (re-)joining."),
        (joins and topology is None, "Topology must be non-null when (re-)joining."),
        (epoch == STATIC_LEAVE_EPOCH and request.instance_id is None, "InstanceId can't be null."),
        (
            epoch < STATIC_LEAVE_EPOCH,
            f"MemberEpoch is {epoch}, but must be greater than or equal to -2.",
        ),
        (names_tasks and None in roles, "If one task-type is non-null, all must be non-null."),
        (not joins and topology is not None, "Topology can only be provided when (re-)joining."),
        (tasks > TASKS_MAX, f"Too many tasks in the request ({tasks}, limit {TASKS_MAX})."),
        (offsets > OFFSETS_MAX, f"Too many task offsets in the request ({offsets}, limit {OFFSETS_MAX})."),
        (tags > TAGS_MAX, f"Too many client tags in the request ({tags}, limit {TAGS_MAX})."),
    )
    if topology is not None:
        _check_changelogs(topology)


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
    """Raise KafkaError STREAMS_INVALID_TOPOLOGY for a topology that would take long whenever topics change."""
    left = TOPOLOGY_NAMES_MAX - len(topology.subtopologies)
    for one in topology.subtopologies:
        topics = (*one.state_changelog_topics, *one.repartition_source_topics)
        left -= len(topics) + len(one.source_topics) + len(one.source_topic_regex) + len(one.repartition_sink_topics)
        left -= len(one.copartition_groups)
        if left >= 0:  # otherwise the rest of the check would take long
            for topic in topics:
                left -= len(topic.topic_configs)
            for group in one.copartition_groups:
                left -= len(group.source_topics) + len(group.repartition_source_topics)
        if left < 0:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"Too many subtopologies, topics and configs in the topology (limit {TOPOLOGY_NAMES_MAX}).",
            )
