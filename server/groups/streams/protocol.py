"""The streams group protocol (KIP-1071): the effects of heartbeats, leaves, time-outs and topic changes on a group.

`groups.coordinator` calls it with an active shard. Every event becomes a list of records, computed without changing the group
(`transition` for heartbeats). They are appended as one batch and only then applied, by the same code that applies them at a
load. An event that fails changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from ....protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from ...coordination.deadlines import Deadlines
from ...coordination.jobs import Job, Steps, to_the_end
from ...coordination.store import RecordStore
from ..assigning.topics import TopicView
from ..classic.group import ClassicGroup
from ..classic.protocol import Caller
from ..reconciled_protocol import ReconciledProtocol
from ..records import Change, ReadyChange, records_of
from ..settings import GroupSettings
from . import records, targets
from .answering import AnswerOptions, HeartbeatResult, answered, missing_tags
from .describing import endpoints
from .description import DescriptionWait, checked, next_wait
from .group import NO_OFFSETS, StreamsGroup
from .member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, StreamsMember, StreamsMemberState, away
from .membership import claim_of, member_for, reported, streams_group, with_news
from .target_jobs import TargetJobs
from .transition import ReadyStep, SeenGroup, StreamsHeartbeatContext, StreamsTransition, preparing

if TYPE_CHECKING:
    from ..shard import GroupShard

log = logging.getLogger("ottla.groups")

# Topics are looked up again after this time even without a notified change.
_REFRESH_AFTER_MS = 60 * 60 * 1000
_TRIES = 5
_DESCRIPTION_VERSION = 1
"""Clients of this version and later can be asked for a description of their topology."""


class StreamsProtocol(ReconciledProtocol[StreamsGroup]):
    """See `ReconciledProtocol`."""

    kind = "streams"

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        topics: TopicView,
        start_job: Callable[[GroupShard, Job], None],
        close_classic: Callable[[ClassicGroup, int], None],
    ) -> None:
        super().__init__(settings, store, deadlines, topics, self._remove_one)
        self._close_classic = close_classic
        self._targets = TargetJobs(settings, store, deadlines, start_job)

    # Groups

    def close(self, group: StreamsGroup) -> Job:
        """See `ReconciledProtocol.close`."""
        self._targets.stop_waiting(group)
        yield from super().close(group)

    def _await_revocation(self, shard: GroupShard, group: StreamsGroup, member: StreamsMember) -> None:
        self.timers.unlimit(group, member.member_id)
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            self.timers.limit(shard, group, member)

    def is_quiet(self, group: StreamsGroup, member: StreamsMember) -> bool:
        """See `ReconciledProtocol.is_quiet`."""
        is_stable = member.state is StreamsMemberState.STABLE
        return is_stable and group.epoch <= group.assignment_epoch == member.epoch

    def is_waiting(self, group: StreamsGroup, member: StreamsMember) -> bool:
        """See `ReconciledProtocol.is_waiting`."""
        if member.state is StreamsMemberState.STABLE:
            return super().is_waiting(group, member)
        return member.state is StreamsMemberState.UNRELEASED_TASKS

    # Heartbeats

    def unchanged(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest, caller: Caller
    ) -> HeartbeatResult | None:
        """Return the result of a heartbeat that changes nothing but the member's session; None if `heartbeat` may have more to
        do. `heartbeat` would return the same."""
        group = shard.groups.get(request.group_id)
        if not isinstance(group, StreamsGroup) or (member := group.members.get(request.member_id)) is None:
            return None
        topology, configured, options = group.topology, group.configured, self._settings.of_group(group.group_id)
        if (
            not 0 < member.epoch == request.member_epoch
            or group.group_id in shard.groups_going
            or not group.is_at_rest(member.epoch, self._changes.count, self._elapsed_ms())
            or member.state is not StreamsMemberState.STABLE
            or topology is None
            or configured is None
            or configured.problem is not None
            or not member.topology_epoch >= topology.epoch == group.validated_epoch
            or group.initial_delay is not None
            or group.shutdown_by is not None
            or request.shutdown_application
            or request.active_tasks is not None
            or request.task_offsets is not None
            or request.task_end_offsets is not None
            or request.endpoint_information_epoch != group.endpoint_epoch
            or member.member_id in group.untold
            or _assignment_configs(options) != group.assignment_configs
            or with_news(member, request, caller) != member
            or missing_tags(group, member, caller.version)
            or self._description_wait(group, caller.version) is not None
        ):
            return None
        self.keep_alive(shard, group, member)
        return HeartbeatResult(
            StreamsGroupHeartbeatResponse(
                member_id=member.member_id,
                member_epoch=member.epoch,
                heartbeat_interval_ms=options["streams.heartbeat.interval.ms"],
                task_offset_interval_ms=options["streams.task.offset.interval.ms"],
                acceptable_recovery_lag=options["streams.acceptable.recovery.lag"],
                endpoint_information_epoch=group.endpoint_epoch,
            )
        )

    def preparing(self, shard: GroupShard, request: StreamsGroupHeartbeatRequest) -> Steps[ReadyStep | None]:
        """Prepare the input of `heartbeat`, which is valid if `heartbeat` is the next call. Return None if nothing must be
        prepared, or if the group changed during each attempt."""
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return None
        group_id = request.group_id
        for _ in range(_TRIES):
            seen = SeenGroup.from_group(shard.groups.get(group_id))
            ready = yield from preparing(
                group_id, seen, request.topology, self._topics, self._hashes, self._changes, self._elapsed_ms
            )
            if seen == SeenGroup.from_group(shard.groups.get(group_id)):
                return ready
        return None

    def heartbeat(
        self,
        shard: GroupShard,
        request: StreamsGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
        ready: ReadyStep | None = None,
    ) -> HeartbeatResult:
        """Let a member join, stay or leave.

        Args:
            ready: Result of `preparing` for the request, made directly before; None: it is made here.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
                UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, UNKNOWN_SERVER_ERROR, or
                the error of writing the records. Then nothing has changed.
        """
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._leave(shard, request, now_ms)
        changes: list[Change | ReadyChange] = []
        known = shard.groups.get(request.group_id)
        if ready is None:
            ready = to_the_end(self.preparing(shard, request))
            assert ready is not None  # no other call runs in between
        group = self._group_for(shard, request, changes)
        old, replaced = member_for(group, request)
        if request.member_epoch == 0:
            log.info("group %s: member %s joins, instance id %s", group.group_id, old.member_id, request.instance_id)
        offsets = reported(request, group.task_offsets.get(old.member_id, NO_OFFSETS))
        new = with_news(old, request, caller)
        transition = StreamsTransition(group, old, new, replaced, offsets, changes, ready)
        options = self._settings.of_group(group.group_id)
        waits = not group.members and options["streams.initial.rebalance.delay.ms"] > 0
        around = StreamsHeartbeatContext(
            _assignment_configs(options),
            options["streams.assignment.interval.ms"],
            waits or group.initial_delay is not None,
            request.instance_id is not None,
            now_ms,
            self._elapsed_ms(),
        )
        transition.run(around, claim_of(request))
        # The only member of a group may be replaced, which leaves the group empty for a moment.
        shutdown_by = group.shutdown_by
        self.write(shard, transition.changes, now_ms)
        kept = shard.groups[group.group_id]
        assert isinstance(kept, StreamsGroup)
        if isinstance(known, ClassicGroup):
            self._close_classic(known, now_ms)
        may_warm_up = options["streams.num.warmup.replicas"] > 0
        self._keep(shard, kept, transition, around, waits=waits, may_warm_up=may_warm_up)
        # As at Apache Kafka, the offsets of a group's first member are lost, and those of a member that replaces itself.
        if kept is known and (replaced is None or replaced.member_id != old.member_id):
            if offsets != NO_OFFSETS:
                kept.task_offsets[old.member_id] = offsets
            else:
                kept.task_offsets.pop(old.member_id, None)
        if request.shutdown_application and kept.shutdown_by is None:
            log.info("group %s: member %s requests a shutdown of the application", kept.group_id, old.member_id)
            kept.shutdown_by = old.member_id
            kept.bell.ring()
        answer_options = AnswerOptions(
            kept.shutdown_by or shutdown_by,
            caller.version,
            self.heartbeat_interval_ms(kept, transition.member, options),
            options,
        )
        heard = answered(kept, transition, request, known, answer_options)
        if transition.is_stale or (wait := self._description_wait(kept, caller.version)) is None:
            return heard
        log.info("group %s: a description of its topology is requested", kept.group_id)
        kept.description_wait = wait
        return heard._replace(response=replace(heard.response, topology_description_required=True))

    def _description_wait(self, group: StreamsGroup, version: int) -> DescriptionWait | None:
        """Return the wait for a description of the topology if a member must be asked for one now; else None."""
        topology = group.topology
        if (
            version < _DESCRIPTION_VERSION
            or not self._settings.keeps_topology_descriptions
            or topology is None
            or topology.epoch in group.described
        ):
            return None
        return next_wait(group.description_wait, self._elapsed_ms())

    def _group_for(
        self, shard: GroupShard, request: StreamsGroupHeartbeatRequest, changes: list[Change | ReadyChange]
    ) -> StreamsGroup:
        """Return the group. For a member that joins, it may be new, or replace a classic group without members."""
        group_id = request.group_id
        known = shard.groups.get(group_id)
        if request.member_epoch:
            return streams_group(group_id, known)
        if known is None:
            return StreamsGroup(group_id, shard.partition)
        if isinstance(known, ClassicGroup) and known.is_empty:
            log.info("group %s: converting an empty classic group to a streams group", group_id)
            changes.append(records.classic_tombstone(group_id))
            return StreamsGroup(group_id, shard.partition)
        group = streams_group(group_id, known)
        limit = self._settings.group_streams_max_size
        is_full = len(group.members) >= limit
        if is_full and request.member_id not in group.members and group.static_member(request.instance_id) is None:
            message = f"The streams group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        return group

    def _keep(
        self,
        shard: GroupShard,
        group: StreamsGroup,
        transition: StreamsTransition,
        around: StreamsHeartbeatContext,
        *,
        waits: bool,
        may_warm_up: bool,
    ) -> None:
        """Apply the effects that are not in the log."""
        member, elapsed_ms = transition.member, around.elapsed_ms
        group.configured = transition.configured
        if (look := transition.ready.look) is not None:
            group.topics_known_to = look.known_to
            group.refresh_at_ms = elapsed_ms + _REFRESH_AFTER_MS
        if transition.has_assigned:
            group.assigned_at_ms = elapsed_ms
        if group.kept_epoch != transition.target_epoch:
            group.departed.clear()
            group.kept_epoch = transition.target_epoch if may_warm_up else -1
        if (replaced := transition.replaced) is not None and replaced.member_id != member.member_id:
            self.timers.stop(group, replaced.member_id)
        if waits:
            self._targets.await_members(shard, group)
        self.keep_alive(shard, group, member)
        if transition.has_stepped:
            self._await_revocation(shard, group, member)
        if transition.must_assign:
            self._targets.start(shard, group, around.now_ms)

    def endpoints(self, group: object, member_id: str) -> Steps[tuple[EndpointToPartitions, ...]]:
        """Return `describing.endpoints`; nothing if the group no longer exists."""
        if not isinstance(group, StreamsGroup):
            return ()
        return (yield from endpoints(group, member_id, self._topics))

    def describe_topology(
        self, shard: GroupShard, request: StreamsGroupTopologyDescriptionUpdateRequest, now_ms: Callable[[], int]
    ) -> Steps[None]:
        """Store a description that a member sends of its topology, a node a piece.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, INVALID_REQUEST: another topology epoch, or an invalid description; or
                the error of writing the record. Then nothing has changed.
        """
        self._check_description(shard, request)
        description = yield from checked(request.topology_description)
        group = self._check_description(shard, request)
        described = group.described._replace(stored=request.topology_epoch)
        if described != group.described:
            change = records.group_epoch(
                group.group_id,
                group.epoch,
                group.metadata_hash,
                group.validated_epoch,
                group.assignment_configs,
                described,
            )
            self.write(shard, [change], now_ms())
        group.description, group.description_wait = description, None

    def _check_description(
        self, shard: GroupShard, request: StreamsGroupTopologyDescriptionUpdateRequest
    ) -> StreamsGroup:
        shard.check_active()
        group = streams_group(request.group_id, shard.groups.get(request.group_id), "Group {} not found.")
        group.member(request.member_id)
        epoch = -1 if group.topology is None else group.topology.epoch
        if request.topology_epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch {epoch}.",
            )
        return group

    # Leaving

    def _leave(self, shard: GroupShard, request: StreamsGroupHeartbeatRequest, now_ms: int) -> HeartbeatResult:
        group = streams_group(request.group_id, shard.groups.get(request.group_id), "Group {} not found.")
        if request.shutdown_application and group.shutdown_by is None:
            group.shutdown_by = request.member_id
            group.bell.ring()
        member = group.identified(request.member_id, request.instance_id)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            log.info("group %s: member %s leaves for a while", group.group_id, member.member_id)
            self.write(shard, [records.current_assignment(group.group_id, away(member))], now_ms)
        else:
            log.info("group %s: member %s leaves", group.group_id, member.member_id)
            self.remove(shard, group, member, now_ms)
        return HeartbeatResult(
            StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        )

    def _remove_one(self, shard: GroupShard, group: StreamsGroup, member_id: str, now_ms: int) -> None:
        self.remove(shard, group, group.members[member_id], now_ms)

    def remove(self, shard: GroupShard, group: StreamsGroup, member: StreamsMember, now_ms: int) -> None:
        """Remove a member from the group; its tasks are free at once.

        Raises:
            KafkaError: The partition cannot be written; the member is still in the group.
        """
        group_id, epoch = group.group_id, group.epoch + 1
        changes = records.member_tombstones(group_id, member.member_id)
        changes.append(
            records.group_epoch(
                group_id, epoch, group.metadata_hash, group.validated_epoch, group.assignment_configs, group.described
            )
        )
        is_last = len(group.members) == 1
        if is_last:  # Without members nothing is left to assign.
            changes.append(records.target_metadata(group_id, epoch, 0))
        target = group.targets.get(member.member_id)
        self.write(shard, changes, now_ms)
        self.timers.stop(group, member.member_id)
        if is_last:
            group.assigned_at_ms = None
        elif target is not None and group.kept_epoch == group.assignment_epoch:
            group.departed[member.member_id] = target

    # Records

    def write(self, shard: GroupShard, changes: Collection[Change | ReadyChange], now_ms: int) -> None:
        """Append changes of a group as one batch, then apply them; errors as `RecordStore.append`."""
        if changes:
            self._store.append(shard.partition, records_of(changes), now_ms)
            shard.apply(changes)


def _assignment_configs(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a group that its assignment depends on, as its records contain them."""
    configs = {targets.STANDBYS: str(options["streams.num.standby.replicas"])}
    if tags := options["streams.rack.aware.assignment.tags"]:
        configs[targets.RACK_TAGS] = ",".join(tags)
    return configs
