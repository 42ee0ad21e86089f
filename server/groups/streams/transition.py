"""A heartbeat on its way into its group: everything is computed and put down as records, nothing is touched.

What takes long where there are thousands of topics is made ready in pieces before (`preparing`). The rest is one step, made by `protocol` for each heartbeat. The steps, in this order: what the member says of itself; the group's topology, if it has
none yet, and what it makes of the topics; if any of it changed, the group's epoch grows; if that is above the target
assignment's, there is another one; the member does one step towards it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from operator import is_
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
from .group import StreamsGroup
from .member import NO_TASKS, StreamsMember, StreamsTasks
from .membership import check_claim
from .reconciliation import next_step
from .topology import Topology, of_request

log = logging.getLogger("ottla.groups")


class StreamsSurroundings(NamedTuple):
    """`configs` are what targets are to be made with; `interval_ms` is how old a target is at least when there is another one.
    `now_ms` is written, intervals go by `elapsed_ms`."""

    configs: Mapping[str, str]
    interval_ms: int
    is_delayed: bool
    """The group waits for more members."""
    now_ms: int
    elapsed_ms: int


class SeenGroup(NamedTuple):
    """A group, as far as what is made ready depends on it."""

    group: StreamsGroup | None
    topology: Topology | None
    configured: Configured | None
    metadata_hash: int

    @classmethod
    def of(cls, group: object) -> Self:
        """Nothing of what is no streams group."""
        if not isinstance(group, StreamsGroup):
            return cls(None, None, None, 0)
        return cls(group, group.topology, group.configured, group.metadata_hash)

    def is_still(self, group: object) -> bool:
        return all(map(is_, self, SeenGroup.of(group)))


class TopologyLook(NamedTuple):
    """What a topology makes of the topics, whose changes after the first `known_to` have not all been seen."""

    metadata_hash: int
    configured: Configured
    known_to: int


class ReadyStep(NamedTuple):
    """
    Attributes:
        topology: The group's, or that of its first member; None if there is none, or it is refused.
        written: The topology's record, if the group has none yet.
        look: None if the group need not look at its topics again.
        refused: Code and message of what is wrong with the topology.
    """

    seen: SeenGroup
    topology: Topology | None = None
    written: ReadyChange | None = None
    look: TopologyLook | None = None
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
    """Read the topology that a member brings along and look at its topics; a topic a piece, the longest piece some milliseconds.

    It is of use as long as the group is as it was `seen`.
    """
    try:
        topology = yield from _topology_of(seen.topology, wanted)
        if topology is None:
            return ReadyStep(seen)
        written = None
        if seen.topology is None:
            change = records.topology(group_id, topology)
            written = ReadyChange(topology, change, write_record(*change))
        # No piece ends between here and the heartbeat if there is nothing to look at.
        look = yield from _look_at(topology, seen.group, topics, hashes, changes, elapsed_ms)
        return ReadyStep(seen, topology, written, look)
    except KafkaError as error:
        return ReadyStep(seen, refused=(error.code, error.message))


def _topology_of(known: Topology | None, wanted: message.Topology | None) -> Steps[Topology | None]:
    if wanted is None:
        return known
    topology = of_request(wanted)
    if len(topology.required) > A_PIECE:
        yield
    if known is None:
        return topology
    if known.epoch <= topology.epoch and known != topology:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    return known


def _look_at(
    topology: Topology,
    group: StreamsGroup | None,
    topics: TopicView,
    hashes: MetadataHashes,
    changes: TopicChanges,
    elapsed_ms: Callable[[], int],
) -> Steps[TopologyLook | None]:
    if group is not None:
        changes.tell(group, topology.required.__contains__)
        is_refreshed = group.refresh_at_ms is not None and elapsed_ms() < group.refresh_at_ms
        if is_refreshed and group.configured is not None:
            return None
        if group.refresh_at_ms is not None and not is_refreshed:
            hashes.forget()  # It is time to look whether nobody said so.
            group.refresh_at_ms = None  # Who comes meanwhile looks at what is still to be looked at.
    known_to = changes.count
    # First the hash: what has changed before the look that follows is seen with it, or found by the next heartbeat.
    yield from hashes.preparing(topology.required)
    number = hashes.of(topology.required)
    if group is not None and group.configured is not None and group.metadata_hash == number:
        return TopologyLook(number, group.configured, known_to)
    return TopologyLook(number, (yield from configure(topology, topics)), known_to)


class StreamsTransition:
    """
    Args:
        old: The member before, as the group knows it, or as one that has just come.
        new: The member with its news.
        changes: What is to be written before all else.
        ready: Of this group and the member's request.

    Attributes:
        changes: What is to be written; complete after `run`.
        member: The member after its step.
        claim: What it says it has; None if it does not say.
        configured: What the topology makes of the topics.
        statuses: What the member is to be told of the group, as far as it follows from this.
        has_stepped: Its assignment, state or epoch changed.
        has_assigned: There is another target assignment.
        must_assign: There is to be one, which takes too long to make it here.
    """

    def __init__(
        self,
        group: StreamsGroup,
        old: StreamsMember,
        new: StreamsMember,
        changes: list[Change | ReadyChange],
        ready: ReadyStep,
    ) -> None:
        self.group = group
        self.old = old
        self.member = new
        self.claim: StreamsTasks | None = None
        self.changes = changes
        self.ready = ready
        self.configured: Configured
        self.statuses: list[Status] = []
        self.has_stepped = False
        self.has_assigned = False
        self.must_assign = False
        self._around: StreamsSurroundings
        self._epoch = group.epoch
        self._must_bump = False
        self._hash = group.metadata_hash
        self._topology_epoch: int

    def run(self, around: StreamsSurroundings, claim: StreamsTasks | None) -> None:
        """Do all the steps, once.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR, STREAMS_INVALID_TOPOLOGY, INVALID_REQUEST (another topology, tasks that there
                are not), FENCED_MEMBER_EPOCH (a state that we do not know).
        """
        self._around, self.claim = around, claim
        group, new = self.group, self.member
        if new != self.old:
            self.changes.append(records.member_metadata(group.group_id, new))
            self._must_bump = True
        self._take_topology()
        self._take_topics()
        self._take_epoch(claim)
        epoch, tasks = self._take_target()
        if not new.is_reconciled_to(epoch):
            self.member = next_step(group, new, epoch, tasks, claim)
        self.has_stepped = self.member != new
        if self.has_stepped:
            self.changes.append(records.current_assignment(group.group_id, self.member))

    def _take_topology(self) -> None:
        """The group's, or that of its first member."""
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
            self._tell(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {self.member.topology_epoch} is behind the group's topology epoch"
                f" {known.epoch}.",
            )

    def _take_topics(self) -> None:
        """What was seen of the topics, if they may have changed."""
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
            change = records.group_epoch(group.group_id, self._epoch, self._hash, validated, around.configs)
            self.changes.append(change)
            log.info("group %s: epoch %d", group.group_id, self._epoch)

    def _take_target(self) -> tuple[int, StreamsTasks]:
        """The target assignment's epoch and the member's part in it: another one if the group's epoch is ahead, the last one is
        old enough, and it does not take long."""
        group, new, around = self.group, self.member, self._around
        held = group.targets.get(new.member_id, NO_TASKS)
        if around.is_delayed:
            self._tell_delayed("due to the configured initial rebalance delay.")
            return group.assignment_epoch, NO_TASKS
        if group.assignment_epoch >= self._epoch:
            return group.assignment_epoch, held
        since_ms = inf if group.assigned_at_ms is None else around.elapsed_ms - group.assigned_at_ms
        if since_ms < around.interval_ms:
            self._tell_delayed("due to the configured assignment interval.")
            return group.assignment_epoch, held
        members = {**group.members, new.member_id: new}
        self.must_assign = group.is_assigning or targets.are_many(len(members), self.configured, around.configs)
        if self.must_assign:
            self._tell_delayed("because the assignment is being computed.")
            return group.assignment_epoch, held
        assigned = to_the_end(targets.new_targets(members, group.targets, self.configured, around.configs))
        self.changes += targets.changes(group, assigned, self._epoch, around.now_ms)
        self.has_assigned = True
        return self._epoch, assigned[new.member_id]

    def _tell_delayed(self, why: str) -> None:
        self._tell(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed {why}")

    def _tell(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(status_code=code, status_detail=detail))
