"""One streams group as a table: what its records say, and what follows from it.

Changed only by `replay`, with records that are in the log, so that a reload finds the same table. What is not in the log
(deadlines, what the topology makes of the topics, who wants the application to end) is kept by `protocol` and starts anew with
a load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import EndpointToPartitions
from ...coordination.deadlines import Deadline
from ..kinds import PartitionCheck
from ..reconciled import ReconciledGroup
from ..records import write_record
from .configured import Configured
from .member import StreamsMember, StreamsTasks
from .records import tombstones
from .topology import Topology

# From this version of OffsetCommit on the generation may be a member epoch.
_MEMBER_EPOCH_VERSION = 9

Task = tuple[str, int]
"""Subtopology id and partition."""


class Served(NamedTuple):
    """What `describing` has made of a member, for as long as it and the topology stay the same."""

    member: StreamsMember
    configured: Configured | None
    row: EndpointToPartitions


class StreamsGroup(ReconciledGroup[StreamsMember, StreamsTasks]):
    """
    Attributes:
        validated_epoch: Of the topology whose topics were all there and right then; -1 if they were not.
        assignment_configs: What else the last target was to be made with.
        topology: None only while the group is being loaded.
        active_processes: Active task -> id of the process that has it, or has to give it up.
        standby_processes, warmup_processes: Task -> ids of processes that have it as that -> in how many members.
        configured: What the topology makes of the topics, as they were looked at last.
        untold: Members that said that they have other tasks than they may use, and have not been told again.
        shutdown_by: Who asked for the end of the whole application.
        endpoint_epoch: Grows with every change of tasks of a member that has a user endpoint.
        endpoints: Member id -> what `describing` has made of it.
        initial_delay: Until then nobody is given anything, as more members may come.
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
        self.untold: set[str] = set()
        self.shutdown_by: str | None = None
        self.endpoint_epoch = 0
        self.endpoints: dict[str, Served] = {}
        self.initial_delay: Deadline | None = None

    # Group, as all kinds have it

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
        """See `kinds.Group`. A member may commit with an older epoch for tasks that it has had ever since."""
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
        """Any time: only what the application reads is protected."""

    def subscribes_to(self, topic: str) -> bool:
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_of

    def tombstone_keys(self) -> list[bytes]:
        return [write_record(*change)[0] for change in tombstones(self.group_id, self.members)]

    # Members

    def is_used_by(self, process_id: str, task: Task, *, as_active: bool) -> bool:
        """Whether a task cannot be given to a member of this process yet: it has it in another role, or it is to be active and
        somebody else has it as that."""
        owner = self.active_processes.get(task)
        if owner is not None and (as_active or owner == process_id):
            return True
        return process_id in self.standby_processes.get(task, ()) or process_id in self.warmup_processes.get(task, ())

    # For `replay`

    def put(self, member: StreamsMember) -> None:
        """Take over what a record says of a member, old or new."""
        if member.member_id in self.members:
            self._take_out(member.member_id)
        self.members[member.member_id] = member
        for owned in filter(any, (member.assigned, member.revoking)):
            self.active_processes.update(dict.fromkeys(_each(owned.active), member.process_id))
            for roles, places in ((self.standby_processes, owned.standby), (self.warmup_processes, owned.warmup)):
                for task in _each(places) if places else ():
                    roles.setdefault(task, Counter())[member.process_id] += 1

    def set_topology(self, topology: Topology | None) -> None:
        self.topology = topology
        self.configured = None

    def remove(self, member_id: str) -> None:
        self._take_out(member_id)
        self.members.pop(member_id, None)
        self.endpoints.pop(member_id, None)
        self.untold.discard(member_id)
        if not self.members:
            self.shutdown_by = None

    def _take_out(self, member_id: str) -> None:
        """Forget what follows from what is known of a member, if anything is."""
        member = self.members.get(member_id)
        if member is None:
            return
        for owned in filter(any, (member.assigned, member.revoking)):
            for task in _each(owned.active):
                if self.active_processes.get(task) == member.process_id:
                    del self.active_processes[task]
            for roles, places in ((self.standby_processes, owned.standby), (self.warmup_processes, owned.warmup)):
                for task in _each(places) if places else ():
                    _less(roles, task, member.process_id)


def _less(roles: dict[Task, Counter[str]], task: Task, process_id: str) -> None:
    """One member less of the process has the task."""
    processes = roles[task]
    processes[process_id] -= 1
    if not processes[process_id]:
        del processes[process_id]
        if not processes:
            del roles[task]


def _each(places: Mapping[str, Mapping[int, int] | frozenset[int]]) -> list[Task]:
    return [(subtopology, partition) for subtopology, partitions in places.items() for partition in partitions]


def _stale(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, message)
