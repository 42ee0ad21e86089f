"""The effects of a heartbeat on its group, computed as records. The group itself is not changed here.

The work that takes long with thousands of topics is done before, in pieces (`preparing`). `protocol` runs the rest in one piece
for each heartbeat. Its steps, in this order: the member's metadata is updated. The group gets its topology, if it has none yet,
and the topology is applied to the topics. If any of these changed, the group's epoch grows. If that is above the target
assignment's epoch, a new target is made. The member makes one step towards its target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import NamedTuple, Self

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import streams_group_heartbeat as message
from ....protocol.messages.streams_group_heartbeat import Status
from ...coordination.jobs import A_PIECE, Steps, to_the_end
from ..assigning.metadata_hash import MetadataHashes
from ..assigning.topics import TopicChanges, TopicView
from ..records import Change, ReadyChange, write_record
from . import records, targets
from .configured import Configured, StatusCode, configure
from .group import StreamsGroup, TaskOffsets
from .member import NO_TASKS, StreamsMember, StreamsTasks, has_other_inputs
from .membership import check_claim
from .reconciliation import next_step
from .topology import Topology, topology_from_request

log = logging.getLogger("ottla.groups")


class StreamsHeartbeatContext(NamedTuple):
    """The state outside the group. `configs` are the options for targets, and `interval_ms` is the minimum age of a target that
    is replaced. `now_ms` is written to records; intervals are measured by `elapsed_ms`."""

    configs: Mapping[str, str]
    interval_ms: int
    is_delayed: bool
    """Whether the group waits for more members."""
    is_static: bool
    """Whether the member has an instance id in this heartbeat."""
    now_ms: int
    elapsed_ms: int


class SeenGroup(NamedTuple):
    """The parts of a group that a prepared step depends on."""

    group: StreamsGroup | None
    topology: Topology | None
    configured: Configured | None
    metadata_hash: int

    @classmethod
    def from_group(cls, group: object) -> Self:
        """Return the present parts of a group; all empty if it is not a streams group."""
        if not isinstance(group, StreamsGroup):
            return cls(None, None, None, 0)
        return cls(group, group.topology, group.configured, group.metadata_hash)


class TopologyLookup(NamedTuple):
    """A topology applied to the topics. It may miss topic changes after the first `known_to`."""

    metadata_hash: int
    configured: Configured
    known_to: int


class ReadyStep(NamedTuple):
    """
    Attributes:
        topology: The topology of the group or of its first member; None if there is none, or if it is refused.
        written: The topology's record, if the group has none yet.
        look: The topology applied to the topics; None if the group need not look up its topics again.
        refused: Error code and message for a wrong topology.
    """

    seen: SeenGroup
    topology: Topology | None = None
    written: ReadyChange | None = None
    look: TopologyLookup | None = None
    refused: tuple[ErrorCode, str] | None = None


def preparing(
    group_id: str,
    seen: SeenGroup,
    wanted: message.Topology | None,
    topics: TopicView,
    hashes: MetadataHashes,
    changes: TopicChanges,
    elapsed_ms: Callable[[], int],
) -> Steps[ReadyStep]:
    """Read the topology that a member has sent, and look up its topics, a topic a piece; the longest piece takes some
    milliseconds. The result is valid as long as the group is equal to `seen`.
    """
    try:
        topology = yield from _topology_of(seen.topology, wanted)
        if topology is None:
            return ReadyStep(seen)
        written = None
        if seen.topology is None:
            change = records.topology(group_id, topology)
            written = ReadyChange(topology, change, write_record(*change))
        # If nothing must be looked up, no piece ends between here and the heartbeat.
        look = yield from _look_up_topics(topology, seen.group, topics, hashes, changes, elapsed_ms)
        return ReadyStep(seen, topology, written, look)
    except KafkaError as error:
        return ReadyStep(seen, refused=(error.code, error.message))


def _topology_of(known: Topology | None, wanted: message.Topology | None) -> Steps[Topology | None]:
    if wanted is None:
        return known
    topology = topology_from_request(wanted)
    if len(topology.required) > A_PIECE:
        yield
    if known is None:
        return topology
    if known.epoch <= topology.epoch and known != topology:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _look_up_topics(
    topology: Topology,
    group: StreamsGroup | None,
    topics: TopicView,
    hashes: MetadataHashes,
    changes: TopicChanges,
    elapsed_ms: Callable[[], int],
) -> Steps[TopologyLookup | None]:
    if group is not None:
        changes.notify(group, topology.required.__contains__)
        is_refreshed = group.refresh_at_ms is not None and elapsed_ms() < group.refresh_at_ms
        if is_refreshed and group.configured is not None:
            return None
        if group.refresh_at_ms is not None and not is_refreshed:
            hashes.forget()  # The interval has ended: look up all topics, also without a notified change.
            group.refresh_at_ms = None  # Members whose heartbeats come during the look-up also look up the topics.
    known_to = changes.count
    # The hash is first: a topic change before the look-up that follows is seen by it, or found by the next heartbeat.
    yield from hashes.preparing(topology.required)
    number = hashes.hash_of(topology.required)
    if group is not None and group.configured is not None and group.metadata_hash == number:
        return TopologyLookup(number, group.configured, known_to)
    return TopologyLookup(number, (yield from configure(topology, topics)), known_to)


class StreamsTransition:
    """
    Args:
        old: The member before the heartbeat, as the group knows it, or a new member.
        new: The member with the heartbeat's changes.
        replaced: The static member that it replaces (`member.returned`).
        offsets: The offsets of the member's tasks.
        changes: Changes that must be written first.
        ready: Step prepared for this group and the member's request.

    Attributes:
        changes: Changes that must be written; complete after `run`.
        member: The member after its step.
        claim: Tasks that the member claims to have; None if the request does not contain them.
        configured: The topology applied to the topics.
        statuses: Statuses for the member's answer that follow from this heartbeat.
        target_epoch: Epoch of the target that the member makes its step towards.
        has_stepped: Whether the member's assignment, state or epoch changed.
        has_assigned: Whether a new target assignment was made.
        must_assign: Whether a job must make a new one, since it takes too long here.
        is_stale: Whether the member has an older topology than the group.
    """

    def __init__(
        self,
        group: StreamsGroup,
        old: StreamsMember,
        new: StreamsMember,
        replaced: StreamsMember | None,
        offsets: TaskOffsets,
        changes: list[Change | ReadyChange],
        ready: ReadyStep,
    ) -> None:
        self.group = group
        self.old = old
        self.member = new
        self.replaced = replaced
        self.offsets = offsets
        self.claim: StreamsTasks | None = None
        self.changes = changes
        self.ready = ready
        self.configured: Configured
        self.statuses: list[Status] = []
        self.target_epoch: int
        self.has_stepped = False
        self.has_assigned = False
        self.must_assign = False
        self.is_stale = False
        self._around: StreamsHeartbeatContext
        self._epoch = group.epoch
        self._must_bump = False
        self._hash = group.metadata_hash
        self._topology_epoch: int

    def run(self, around: StreamsHeartbeatContext, claim: StreamsTasks | None) -> None:
        """Do all the steps, once.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, STREAMS_INVALID_TOPOLOGY, INVALID_REQUEST (another topology, tasks that do not
                exist), FENCED_MEMBER_EPOCH (a state that this coordinator does not know).
        """
        self._around, self.claim = around, claim
        group, new = self.group, self.member
        if self.replaced is not None:
            self._replace_static(self.replaced)
            # A known member that takes the place of another leaves its own tasks.
            self._must_bump = self.replaced.member_id != new.member_id and new.member_id in group.members
        if new != self.old:
            self.changes.append(records.member_metadata(group.group_id, new))
            self._must_bump |= not around.is_static or has_other_inputs(self.old, new)
        self._take_topology()
        self._take_topics()
        self._take_epoch(claim)
        epoch, tasks = self._take_target()
        self.target_epoch = epoch
        if not new.is_reconciled_to(epoch):
            self.member = next_step(group, new, epoch, tasks, claim)
        self.has_stepped = self.member != new
        if self.has_stepped:
            self.changes.append(records.current_assignment(group.group_id, self.member))

    def _replace_static(self, replaced: StreamsMember) -> None:
        """Give the member what the static member had."""
        group_id, heir = self.group.group_id, self.old
        self.changes += records.member_tombstones(group_id, replaced.member_id)
        self.changes.append(records.member_metadata(group_id, heir))
        self.changes.append(records.target(group_id, heir.member_id, self._held()))
        self.changes.append(records.current_assignment(group_id, heir))

    def _held(self) -> StreamsTasks:
        """Return the member's part of the present target."""
        member_id, group = (self.replaced or self.old).member_id, self.group
        held = group.targets.get(member_id)
        if held is None and group.kept_epoch == group.assignment_epoch:
            held = group.departed.get(member_id)
        return NO_TASKS if held is None else held

    def _take_topology(self) -> None:
        """Use the topology of the group, or of its first member."""
        group, ready, known = self.group, self.ready, self.group.topology
        if ready.refused is not None:
            raise KafkaError(*ready.refused)
        if ready.topology is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group.group_id} has no topology")
        self._topology_epoch = ready.topology.epoch
        if ready.written is not None:
            log.info("group %s: topology epoch %d", group.group_id, ready.topology.epoch)
            self.changes.append(ready.written)
        if known is not None and self.member.topology_epoch < known.epoch:
            self.is_stale = True
            self._add_status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {self.member.topology_epoch} is behind the group's topology epoch"
                f" {known.epoch}.",
            )

    def _take_topics(self) -> None:
        """Use the result of the look-up of topics, if there was one."""
        group, look = self.group, self.ready.look
        if look is not None:
            self._hash, self.configured = look.metadata_hash, look.configured
            self._must_bump |= self._hash != group.metadata_hash
        elif group.configured is not None:
            self.configured = group.configured

    def _take_epoch(self, claim: StreamsTasks | None) -> None:
        """Bring the group to its next epoch if there is a reason."""
        group, around = self.group, self._around
        validated = -1
        if self.configured.problem is None:
            validated = self._topology_epoch
            check_claim(claim, self.configured)
        self._must_bump |= validated != group.validated_epoch or around.configs != group.assignment_configs
        if self._must_bump:
            self._epoch += 1
            change = records.group_epoch(
                group.group_id, self._epoch, self._hash, validated, around.configs, group.described
            )
            self.changes.append(change)
            log.info("group %s: epoch %d", group.group_id, self._epoch)

    def _take_target(self) -> tuple[int, StreamsTasks]:
        """Return the target assignment's epoch and the member's part of it. A new target is made if the group's epoch is ahead,
        the last target is old enough, and the work does not take long."""
        group, new, around = self.group, self.member, self._around
        held = self._held()
        if around.is_delayed:
            self._add_delayed_status("due to the configured initial rebalance delay.")
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= self._epoch:
            return group.assignment_epoch, held
        since_ms = inf if group.assigned_at_ms is None else around.elapsed_ms - group.assigned_at_ms
        if since_ms < around.interval_ms:
            self._add_delayed_status("due to the configured assignment interval.")
            return group.assignment_epoch, held
        members = {**group.members, new.member_id: new}
        if self.replaced is not None and self.replaced.member_id != new.member_id:
            del members[self.replaced.member_id]
        offsets = {**group.task_offsets, new.member_id: self.offsets}
        self.must_assign = group.is_assigning or targets.are_many(
            len(members), offsets, self.configured, around.configs
        )
        if self.must_assign:
            self._add_delayed_status("because the assignment is being computed.")
            return group.assignment_epoch, held
        assigned = to_the_end(targets.new_targets(members, offsets, self.configured, around.configs))
        before = group.targets if self.replaced is None else {**group.targets, new.member_id: held}
        self.changes += targets.changes(group.group_id, before, assigned, self._epoch, around.now_ms)
        self.has_assigned = True
        return self._epoch, assigned[new.member_id]

    def _add_delayed_status(self, why: str) -> None:
        self._add_status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed {why}")

    def _add_status(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status_code=code, status_detail=detail))
