"""One streams group as a table: the contents of its records, and values derived from them.

Only `replay` changes it, with records that are in the log, so a reload makes the same table. `protocol` keeps the state that is
not in the log, which a load resets: deadlines, the topology applied to the topics, and a request to end the application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import EndpointToPartitions, TaskOffset
from ....protocol.messages.streams_group_topology_description_update import TopologyDescription
from ...coordination.deadlines import Deadline
from ..kinds import PartitionCheck
from ..reconciled import ReconciledGroup
from ..records import write_record
from .configured import Configured
from .description import DescriptionWait
from .member import StreamsMember, StreamsTasks
from .records import DescriptionEpochs, tombstones
from .topology import Topology

# From this version of OffsetCommit on, the generation may be a member epoch.
_MEMBER_EPOCH_VERSION = 9

Task = tuple[str, int]
"""Subtopology id and partition."""


class TaskOffsets(NamedTuple):
    """Offsets that a member has reported, by task: of its state stores, and of the ends of their changelogs."""

    offsets: tuple[TaskOffset, ...] = ()
    ends: tuple[TaskOffset, ...] = ()


NO_OFFSETS = TaskOffsets()


class EndpointRow(NamedTuple):
    """A member's row that `describing` has made; valid while the member and the configured topology stay the same."""

    member: StreamsMember
    configured: Configured | None
    row: EndpointToPartitions


class StreamsGroup(ReconciledGroup[StreamsMember, StreamsTasks]):
    """
    Attributes:
        validated_epoch: Epoch of the topology if all its topics existed and were right when the group's epoch last grew; else
            -1.
        assignment_configs: Options for the last target.
        topology: Topology of the application; None only while the group is being loaded.
        active_processes: Active task -> id of the process that has it, or must give it up.
        standby_processes, warmup_processes: Task -> id of a process that has it in this role -> number of its members that have
            it.
        configured: The topology applied to the topics, as of the last look-up.
        task_offsets: Member id -> offsets that the member has reported of its tasks.
        described: Topology epochs that descriptions were stored for; a plug-in that refuses some is only at Apache Kafka.
        description: Description of the topology (`description`); None if none was sent since the group was loaded.
        description_wait: Wait for a description that a member was asked for.
        departed: Member id -> target of a member that left after a heartbeat had found the present target. It gets that again if it
            returns before the next target.
        kept_epoch: Epoch of the last target that a heartbeat found while members could have warm-up tasks; `departed` is for
            that.
        untold: Members that reported other tasks than they may use, and have not got an answer with their tasks since.
        shutdown_by: Id of the member that requested the end of the whole application.
        endpoint_epoch: Number that grows when the tasks of a member with a user endpoint change.
        endpoints: Member id -> row that `describing` has made.
        initial_delay: Deadline before which no member gets tasks, as more members may join.
    """

    type_name: ClassVar[str] = "streams"
    state_names: ClassVar[tuple[str, ...]] = ("Empty", "NotReady", "Assigning", "Stable", "Reconciling")

    def __init__(self, group_id: str, partition: int) -> None:
        super().__init__(group_id, partition)
        self.validated_epoch = 0
        self.assignment_configs: dict[str, str] = {}
        self.topology: Topology | None = None
        self.active_processes: dict[Task, str] = {}
        self.standby_processes: dict[Task, Counter[str]] = {}
        self.warmup_processes: dict[Task, Counter[str]] = {}
        self.configured: Configured | None = None
        self.task_offsets: dict[str, TaskOffsets] = {}
        self.described = DescriptionEpochs()
        self.description: TopologyDescription | None = None
        self.description_wait: DescriptionWait | None = None
        self.departed: dict[str, StreamsTasks] = {}
        self.kept_epoch = -1
        self.untold: set[str] = set()
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointRow] = {}
        self.initial_delay: Deadline | None = None

    # Methods that all kinds of groups have

    @property
    def protocol_type(self) -> str:
        return "streams"

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, version: int, *, is_transactional: bool
    ) -> PartitionCheck | None:
        """See `kinds.Group`. A member may commit with an older epoch if it has had the task since that epoch."""
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == -1 and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and version < _MEMBER_EPOCH_VERSION:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {version} is not supported for members of a streams group; use version"
                f" {_MEMBER_EPOCH_VERSION} or later",
            )
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            raise _stale(f"epoch {epoch} is greater than {member.epoch}, the epoch of member {member_id}")
        return partial(self._check_assignment_epoch, member, epoch)

    def _check_assignment_epoch(
        self, member: StreamsMember, epoch: int, topic: str, _topic_id: bytes, partition: int
    ) -> None:
        subtopology = None if self.topology is None else self.topology.subtopology_of.get(topic)
        if subtopology is None:
            raise _stale(f"topic {topic} is not a source topic of the application")
        since = member.assignment_epoch(subtopology, partition)
        if since is None:
            raise _stale(f"task {subtopology}-{partition} is not assigned to member {member.member_id}")
        if epoch < since:
            raise _stale(
                f"epoch {epoch} is before {since}, when task {subtopology}-{partition} was assigned to the member"
            )

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.epoch:
            raise _stale(f"epoch {epoch} does not match {member.epoch}, the epoch of member {member_id}")

    def check_offset_delete(self) -> None:
        """Allow it at any time: only offsets of topics that the application reads are protected."""

    def subscribes_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def tombstone_keys(self) -> list[bytes]:
        return [write_record(*change)[0] for change in tombstones(self.group_id, self.members)]

    # Members

    # For `replay`

    def put(self, member: StreamsMember) -> None:
        """Add or replace a member, as its record says."""
        before = self.members.get(member.member_id)
        if self.released and before is not None:
            self.ring_if_moved(before, member)
        self._take_out(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for owned in filter(any, (member.assigned, member.revoking)):
            self.active_processes.update(dict.fromkeys(_list_tasks(owned.active), member.process_id))
            for roles, places in ((self.standby_processes, owned.standby), (self.warmup_processes, owned.warmup)):
                for task in _list_tasks(places) if places else ():
                    roles.setdefault(task, Counter())[member.process_id] += 1

    def set_topology(self, topology: Topology | None) -> None:
        self.topology = topology
        self.configured = None

    def remove(self, member_id: str) -> None:
        self._take_out(member_id)
        self.members.pop(member_id, None)
        if self.released:
            self.released.ring()
        self.endpoints.pop(member_id, None)
        self.task_offsets.pop(member_id, None)
        self.untold.discard(member_id)
        if not self.members:
            self.shutdown_by = None

    def _take_out(self, member_id: str) -> None:
        """Remove a member's tasks and its instance id from the tables, if the member exists."""
        member = self.members.get(member_id)
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        for owned in filter(any, (member.assigned, member.revoking)):
            for task in _list_tasks(owned.active):
                if self.active_processes.get(task) == member.process_id:
                    del self.active_processes[task]
            for roles, places in ((self.standby_processes, owned.standby), (self.warmup_processes, owned.warmup)):
                for task in _list_tasks(places) if places else ():
                    _count_down(roles, task, member.process_id)


def _count_down(roles: dict[Task, Counter[str]], task: Task, process_id: str) -> None:
    """Count one member less of the process that has the task."""
    processes = roles[task]
    processes[process_id] -= 1
    if not processes[process_id]:
        del processes[process_id]
        if not processes:
            del roles[task]


def _list_tasks(places: Mapping[str, Mapping[int, int] | frozenset[int]]) -> list[Task]:
    return [(subtopology, partition) for subtopology, partitions in places.items() for partition in partitions]


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
