"""The share group protocol (KIP-932): the effects of heartbeats, leaves, time-outs and topic changes on a group.

`groups.coordinator` calls it with an active shard. Every event becomes a list of records, computed without changing the group
(`transition` for heartbeats). They are appended as one batch and only then applied, by the same code that applies them at a
load. An event that fails changes nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import (
    Assignment,
    TopicPartitions,
)
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...coordination.deadlines import Deadlines
from ...coordination.jobs import AT_ONCE, Job, Steps
from ...coordination.store import RecordStore
from ..assigning.assignment import rows_of
from ..assigning.topics import TopicView
from ..classic.protocol import Caller
from ..reconciled_protocol import ReconciledProtocol, assigning
from ..records import Change, ReadyChange, records_of, write_record
from ..settings import GroupSettings
from . import records, targets
from .group import ShareGroup
from .member import LEAVE_EPOCH, ShareMember
from .states import StateTable, Topics, check_size
from .transition import ShareHeartbeatContext, ShareTransition

if TYPE_CHECKING:
    from ..shard import GroupShard

log = logging.getLogger("ottla.groups")

# Topics are looked up again after this time even without a notified change.
_REFRESH_AFTER_MS = 2**31 - 1


class StatesToInitialize(NamedTuple):
    """Request to the share coordinator to initialize states. Its result goes to `ShareProtocol.note_initialized` or `note_refused`.

    Attributes:
        known_topics: Topics that already have other states: no record of their new partitions may be missed, so these start at
            offset 0. Others start as `share.auto.offset.reset` says.
    """

    group_id: str
    state_epoch: int
    partitions: Topics
    known_topics: frozenset[bytes]


class ShareProtocol(ReconciledProtocol[ShareGroup]):
    """See `ReconciledProtocol`.

    Args:
        request_states: Function that requests the initialization of states, and returns at once.
    """

    kind = "share"

    def __init__(
        self,
        settings: GroupSettings,
        store: RecordStore,
        deadlines: Deadlines,
        topics: TopicView,
        start_job: Callable[[GroupShard, Job], None],
        request_states: Callable[[StatesToInitialize], None],
    ) -> None:
        super().__init__(settings, store, deadlines, topics, self.remove)
        self._start_job = start_job
        self._request_states = request_states
        self._asking: dict[str, list[Topics]] = {}
        """Group id -> requests to the share coordinator that are not answered yet. A reload of the shard does not change
        them."""

    # Groups

    def loaded(self, shard: GroupShard, group: ShareGroup, now_ms: int) -> Job:
        """See `ReconciledProtocol.loaded`."""
        yield from super().loaded(shard, group, now_ms)
        # Topics may have been deleted while this partition could not be written.
        if group.states is not None and shard.groups.get(group.group_id) is group:
            gone = frozenset(one for one in group.states.topic_ids() if self._topics.name_of(one) is None)
            self.forget_topics(shard, group, gone, now_ms)

    def forget_topics(self, shard: GroupShard, group: ShareGroup, topic_ids: Collection[bytes], now_ms: int) -> None:
        """Forget the states of deleted topics. Errors as `RecordStore.append`."""
        if group.states is not None and not group.states.topic_ids().isdisjoint(topic_ids):
            self._write_states(shard, group, group.states.without(topic_ids), now_ms)

    def is_quiet(self, group: ShareGroup, member: ShareMember) -> bool:
        """See `ReconciledProtocol.is_quiet`. Partitions are assigned once their states have been initialized."""
        is_initializing = group.states is not None and bool(group.states.initializing)
        return not is_initializing and group.epoch <= group.assignment_epoch == member.epoch

    # Heartbeats

    def unchanged(
        self, shard: GroupShard, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> ShareGroupHeartbeatResponse | None:
        """Return the answer to a heartbeat that changes nothing but the member's session; None if `heartbeat` may have more to
        do. `heartbeat` would return the same answer."""
        group = shard.groups.get(request.group_id)
        if not isinstance(group, ShareGroup) or (member := group.members.get(request.member_id)) is None:
            return None
        states = group.states
        if (
            not 0 < member.epoch == request.member_epoch
            or group.group_id in shard.groups_going
            or not group.is_at_rest(member.epoch, self._changes.count, self._elapsed_ms())
            or request.subscribed_topic_names is not None
            or group.has_unassigned_states
            or group.looked_for != (group.subscribed_topics, states, group.topics_known_to)
            or (states is not None and states.initializing and group.group_id not in self._asking)
            or _with_news(member, request, caller) != member
        ):
            return None
        self.keep_alive(shard, group, member)
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._settings.of_group(group.group_id)["share.heartbeat.interval.ms"],
        )

    def preparing(
        self, shard: GroupShard, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> Steps[ReadyChange | None]:
        """Look up the topics that the group will subscribe to, which may be thousands, as `heartbeat` will. Return the prepared
        record of a member that names thousands."""
        group, named = shard.groups.get(request.group_id), frozenset(request.subscribed_topic_names or ())
        names, old = named, None
        if isinstance(group, ShareGroup):
            old = group.members.get(request.member_id)
            is_other = old is not None and (request.member_epoch == LEAVE_EPOCH or (named and named != old.topic_names))
            others = group.subscribed_without(old) if old is not None and is_other else group.subscribed_topics
            names = named | others if named else others  # No copy of thousands of names without changes.
        yield from self._hashes.preparing(names)
        if len(named) <= AT_ONCE:
            return None
        member = _with_news(old or ShareMember(request.member_id), request, caller)
        return None if member == old else (yield from records.writing_member(request.group_id, member))

    def heartbeat(
        self,
        shard: GroupShard,
        request: ShareGroupHeartbeatRequest,
        caller: Caller,
        now_ms: int,
        ready: ReadyChange | None = None,
    ) -> ShareGroupHeartbeatResponse:
        """Let a member join, stay or leave.

        Args:
            ready: Result of `preparing` for the request.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, or the error of
                writing the records. Then nothing has changed.
        """
        group_id, member_id, epoch = request.group_id, request.member_id, request.member_epoch
        known = shard.groups.get(group_id)
        if epoch == LEAVE_EPOCH:
            self.remove(shard, share_group(group_id, known, "Group"), member_id, now_ms)
            return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=epoch)
        if known is None and epoch == 0:
            known = ShareGroup(group_id, shard.partition)
        group = share_group(group_id, known, "Share group")
        self._check_size(group, member_id)
        old = ShareMember(member_id) if epoch == 0 and member_id not in group.members else group.member(member_id)
        _check_epoch(old, epoch)
        if epoch == 0:
            log.info("group %s: member %s joins", group_id, member_id)
        self._changes.notify(group)
        transition = ShareTransition(group, old, _with_news(old, request, caller), ready)
        elapsed_ms = self._elapsed_ms()
        max_bytes, is_asking = self._store.max_batch_bytes(shard.partition), group_id in self._asking
        transition.run(
            ShareHeartbeatContext(self._settings, self._topics, self._hashes, now_ms, elapsed_ms, max_bytes, is_asking)
        )
        self._write(shard, group, transition.changes, now_ms)
        self._after(shard, transition, now_ms, elapsed_ms)
        member = transition.member
        told = None
        has_missed_answer = self._settings.ottla_hold_heartbeats and epoch < old.epoch  # as in consumer groups
        has_asked = epoch == 0 or request.subscribed_topic_names is not None
        if has_asked or has_missed_answer or member.assigned != old.assigned:
            told = Assignment(topic_partitions=rows_of(TopicPartitions, member.assigned))
        return ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.heartbeat_interval_ms(group, member, self._settings.of_group(group.group_id)),
            assignment=told,
        )

    def _after(self, shard: GroupShard, transition: ShareTransition, now_ms: int, elapsed_ms: int) -> None:
        """Apply the effects of a member's changes once they are written."""
        group = transition.group
        if transition.has_seen_topics:
            group.refresh_at_ms = elapsed_ms + _REFRESH_AFTER_MS
        if transition.has_assigned:
            group.assigned_at_ms = elapsed_ms
        self.keep_alive(shard, group, transition.member)
        if transition.must_assign and not group.is_assigning:
            group.is_assigning = True
            self._start_job(shard, self._assign(shard, group, now_ms))
        if transition.asked_for:
            self.note_requested(group.group_id, transition.asked_for)
            self._request_states(
                StatesToInitialize(group.group_id, transition.epoch, transition.asked_for, transition.known_topics)
            )
        group.looked_for = (transition.names, group.states, group.topics_known_to)

    def _check_size(self, group: ShareGroup, member_id: str) -> None:
        limit = self._settings.group_share_max_size
        if len(group.members) >= limit and member_id not in group.members:
            message = f"The share group has reached its maximum capacity of {limit} members."
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _assign(self, shard: GroupShard, group: ShareGroup, now_ms: int) -> Job:
        """Make a target assignment for the group in its present state; members get their parts at their next heartbeats.

        Any change of the group during the job brings it to a later epoch, for which another target is made.
        """
        epoch, members, before, initialized = group.epoch, dict(group.members), dict(group.targets), group.initialized
        max_bytes = self._store.max_batch_bytes(shard.partition)
        with assigning(group, self._elapsed_ms):
            found = yield from targets.new_targets(members, before, initialized, self._topics, max_bytes)
            made = yield from targets.target_records(group, found, max_bytes)
            # A group that has lost its last member has a later target.
            if shard.groups.get(group.group_id) is group and group.assignment_epoch < epoch:
                for member_id in found.keys() - group.members.keys():
                    made.add(write_record(*records.target_tombstone(group.group_id, member_id)))
                last = records.target_metadata(group.group_id, epoch, now_ms)
                made.add(write_record(*last))
                self._store.append(shard.partition, made, now_ms)
                for member_id, assignment in found.items():
                    if member_id in group.members and group.targets.get(member_id) != assignment:
                        group.set_target(member_id, assignment)
                shard.apply([last])

    def remove(self, shard: GroupShard, group: ShareGroup, member_id: str, now_ms: int) -> None:
        """Remove a member from the group.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, or the partition cannot be written. Then the member is still in the group.
        """
        leaving = group.member(member_id)
        log.info("group %s: member %s leaves", group.group_id, member_id)
        names = group.subscribed_without(leaving)
        topics_hash = group.metadata_hash if names == group.subscribed_topics else self._hashes.hash_of(names)
        changes = records.member_tombstones(group.group_id, member_id)
        changes.append(records.group_epoch(group.group_id, group.epoch + 1, topics_hash))
        is_last = len(group.members) == 1
        if is_last:
            # As in Apache Kafka since 4.4.0: nothing is left to assign, and the next member gets its assignment at once.
            changes.append(records.target_metadata(group.group_id, group.epoch + 1, 0))
        self._write(shard, group, changes, now_ms)
        if is_last:
            group.assigned_at_ms = None
        self.timers.stop(group, member_id)

    # States of partitions

    def note_initialized(self, shard: GroupShard, group_id: str, partitions: Topics, now_ms: int) -> None:
        """Note that the share coordinator has the states; members get the partitions by their next heartbeats. Errors as
        `RecordStore.append`."""
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.states is not None:
            # A topic or the group may have been deleted since the request.
            asked = {
                topic_id: partitions[topic_id] & one.partitions
                for topic_id, one in group.states.initializing.items()
                if topic_id in partitions
            }
            self._write_states(shard, group, group.states.with_initialized(asked, self._topics.name_of), now_ms)

    def note_refused(self, shard: GroupShard, group_id: str, partitions: Topics, now_ms: int) -> None:
        """Note that the share coordinator could not initialize the states. The next heartbeat requests them again, except those
        that are in another open request. Errors as `RecordStore.append`."""
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.states is not None and group.states.initializing:
            if len(questions := self._asking.get(group_id, ())) > 1:
                asked = Counter((topic_id, index) for one in questions for topic_id in one for index in one[topic_id])
                partitions = {
                    topic_id: frozenset(index for index in indexes if asked[topic_id, index] <= 1)
                    for topic_id, indexes in partitions.items()
                }
            self._write_states(shard, group, group.states.refused(partitions), now_ms)

    def note_requested(self, group_id: str, partitions: Topics) -> None:
        """Note the start of a request to the share coordinator for states of the group; `note_answered` ends it."""
        self._asking.setdefault(group_id, []).append(partitions)

    def note_answered(self, group_id: str, partitions: Topics) -> None:
        """Note that a request for states of the group has ended, whatever its result. States that are still initializing
        without a request are then requested again."""
        questions = self._asking[group_id]
        questions.remove(partitions)
        if not questions:
            del self._asking[group_id]

    def prepare_move(self, shard: GroupShard, group_id: str, partitions: Topics, now_ms: int) -> int:
        """Prepare to initialize the states of these partitions again, and return the state epoch for that. The group is created
        if it does not exist.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, UNKNOWN_SERVER_ERROR (too many), or as `RecordStore.append`.
        """
        known = shard.groups.get(group_id)
        group = ShareGroup(group_id, shard.partition) if known is None else share_group(group_id, known)
        _check_empty(group)
        before = StateTable() if group.states is None else group.states
        states = before.with_requested(partitions, self._topics.name_of)
        check_size(len(states.topic_ids()), states.partition_count)
        if partitions:
            self._write_states(shard, group, states, now_ms)
        return group.epoch

    def prepare_reset(self, shard: GroupShard, group_id: str, topic_ids: Collection[bytes], now_ms: int) -> Topics:
        """Prepare to reset the group in these topics, and return the states that must be deleted; topics without states are
        left out.

        Raises:
            KafkaError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or as `RecordStore.append`.
        """
        group = share_group(group_id, shard.groups.get(group_id))
        _check_empty(group)
        if group.states is None:
            return {}
        found: dict[bytes, frozenset[int]] = {}
        for topic_id in topic_ids:
            if topic_id in group.states.initialized:
                found[topic_id] = group.states.initialized[topic_id].partitions
            elif topic_id in group.states.deleting:
                found[topic_id] = self._all_partitions(topic_id)
        self._write_states(shard, group, group.states.with_deleting(found.keys(), self._topics.name_of), now_ms)
        return found

    def prepare_deletion(self, shard: GroupShard, group_id: str, now_ms: int) -> Topics:
        """Prepare the deletion of the group, and return all states that must be deleted; none if it is not a share group.

        Raises:
            KafkaError: NON_EMPTY_GROUP, or as `RecordStore.append`.
        """
        group = shard.groups.get(group_id)
        if not isinstance(group, ShareGroup) or group.states is None:
            return {}
        _check_empty(group)
        states, none = group.states, frozenset[int]()
        found = {
            topic_id: none.union(
                *(
                    table[topic_id].partitions
                    for table in (states.initialized, states.initializing)
                    if topic_id in table
                ),
                self._all_partitions(topic_id) if topic_id in states.deleting else none,
            )
            for topic_id in states.topic_ids()
            # The share coordinator forgets the states of a deleted topic by itself.
            if self._topics.name_of(topic_id) is not None
        }
        self._write_states(shard, group, StateTable().with_deleting(found.keys(), self._topics.name_of), now_ms)
        return found

    def note_deleted(self, shard: GroupShard, group_id: str, topic_ids: Collection[bytes], now_ms: int) -> None:
        """Note that the states of these topics were deleted. Errors as `RecordStore.append`."""
        group = shard.groups.get(group_id)
        if isinstance(group, ShareGroup) and group.states is not None:
            self._write_states(shard, group, group.states.deleted(topic_ids), now_ms)

    def _all_partitions(self, topic_id: bytes) -> frozenset[int]:
        return frozenset(range(self._topics.partition_count(topic_id)))

    # Records

    def _write_states(self, shard: GroupShard, group: ShareGroup, states: StateTable, now_ms: int) -> None:
        if states != group.states:
            self._write(shard, group, [records.state_partitions(group.group_id, states)], now_ms)

    def _write(
        self, shard: GroupShard, group: ShareGroup, changes: Collection[Change | ReadyChange], now_ms: int
    ) -> None:
        """Append changes of a group, which may be new, as one batch, then apply them; errors as `RecordStore.append`."""
        if changes:
            self._store.append(shard.partition, records_of(changes), now_ms)
            shard.groups.setdefault(group.group_id, group)
            shard.apply(changes)


def share_group(group_id: str, group: object, word: str = "Group") -> ShareGroup:
    """Return the group if it is a share group; else raise KafkaError GROUP_ID_NOT_FOUND."""
    if isinstance(group, ShareGroup):
        return group
    message = f"{word} {group_id} not found." if group is None else f"Group {group_id} is not a share group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member whose epoch is not the coordinator's. The epoch before is allowed, since the last
    answer may have been lost."""
    if epoch in (0, member.epoch, member.previous_epoch) and epoch <= member.epoch:
        return
    if epoch > member.epoch:
        told = f"greater member epoch ({epoch}) than the one known by the group coordinator ({member.epoch})."
    else:
        told = (
            f"smaller member epoch ({epoch}) than the one known by the group coordinator ({member.epoch}), and it does"
            f" not match the previous member epoch ({member.previous_epoch})."
        )
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {told} The member must abandon all its partitions and rejoin.",
    )


def _with_news(member: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller) -> ShareMember:
    """Return the member with the fields of the request; fields that it leaves out have not changed."""
    names = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topic_names=member.topic_names if names is None else frozenset(names),
        client_id=caller.client_id,
        client_host=caller.client_host,
    )
