"""Members of the classic protocol in a consumer group (KIP-848): JoinGroup, SyncGroup, Heartbeat and LeaveGroup there.

`groups.coordinator` calls it. A classic member's generation is its member epoch. Its JoinGroup contains the same as a heartbeat
of the consumer protocol, and its SyncGroup fetches its assignment. The group has no leader, and no request is parked:
REBALANCE_IN_PROGRESS asks a member to join again if it must give up or get partitions.

Differs from Apache Kafka if only classic members are left and the group may not be downgraded. Here they are asked to join
again as soon as one of them leaves. There the partitions of the member that left have no owner until the next join.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.consumer_group_log import ClassicMemberMetadata, ClassicProtocol
from ....protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import MemberIdentity, MemberResponse
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...coordination.jobs import to_the_end
from ..classic.protocol import KNOWN_MEMBER_ID_VERSION, Caller
from ..settings import GroupSettings
from ..subscription import CONSUMER_PROTOCOL_TYPE, read_subscription
from .group import ConsumerGroup
from .member import ConsumerMember, ConsumerMemberState
from .membership import returned_member
from .migration import Migration, is_large
from .protocol import ConsumerProtocol
from .transition import ConsumerTransition

if TYPE_CHECKING:
    from ..shard import GroupShard

log = logging.getLogger("ottla.groups")


class ClassicMembers:
    """The rules of classic members in consumer groups. All state is in the groups."""

    def __init__(
        self, settings: GroupSettings, protocol: ConsumerProtocol, migration: Migration, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._protocol = protocol
        self._migration = migration
        self._new_id = new_id

    def join(
        self, shard: GroupShard, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, now_ms: int
    ) -> JoinGroupResponse:
        """Add a new member, or update a known one that joins again.

        Raises:
            KafkaError: INCONSISTENT_GROUP_PROTOCOL (also for a subscription that cannot be read), GROUP_MAX_SIZE_REACHED,
                UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, or the error of writing the records. Then nothing has changed.
        """
        if not self._settings.may_upgrade and not self._settings.may_downgrade:
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled.",
            )
        is_new = not request.member_id
        member_id = request.member_id or self._new_id()
        instance_id = request.group_instance_id
        self._protocol.check_size(group, member_id, instance_id)
        _check_protocols(group, member_id, request)
        if is_new and instance_id is None and caller.version >= KNOWN_MEMBER_ID_VERSION:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id, protocol_name=None)
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"malformed subscription: {error}") from error
        replaced, must_downgrade = group.static_member(instance_id) if is_new else None, False
        if replaced is not None:
            old = returned_member(replaced, member_id)
        elif instance_id is None or is_new:
            old = group.members.get(member_id) or ConsumerMember(member_id)
        else:
            old = _identified(group, member_id, instance_id)
        new = _with_news(old, request, subscription, caller)
        if replaced is not None and replaced.classic is None:
            staying = [new if one is replaced else one for one in group.members.values()]
            must_downgrade = self._migration.may_downgrade(group, staying)
            if must_downgrade and not is_large(staying):
                return self._join_downgraded(shard, group, replaced, new, now_ms)
        log.info("group %s: member %s joins with the classic protocol", group.group_id, member_id)
        claim = self._migration.by_id(subscription.owned_partitions)
        stepped = self._protocol.advance(
            shard, ConsumerTransition(group, old, new, replaced, []), claim, caller, now_ms
        )
        self._protocol.timers.unlimit(group, member_id)
        # The member must send SyncGroup next.
        self._protocol.timers.limit(shard, group, stepped)
        if must_downgrade or (is_large(group.members) and group.classic_count == len(group.members)):
            # In the second case the downgrade was tried before, and the group changed during it.
            self._protocol.start_downgrade(shard, group, now_ms)
        return _joined(member_id, stepped.epoch, request.protocols[0].name)

    def _join_downgraded(
        self, shard: GroupShard, group: ConsumerGroup, replaced: ConsumerMember, new: ConsumerMember, now_ms: int
    ) -> JoinGroupResponse:
        """Downgrade the group: its last member of the consumer protocol, a static one, returned with the classic protocol."""
        is_current = group.assignment_epoch == group.epoch and new.topic_names == replaced.topic_names
        staying = [
            (new if one is replaced else one, group.targets.get(one.member_id, {})) for one in group.members.values()
        ]
        made = to_the_end(self._migration.downgrade(group, staying, now_ms))
        classic = self._migration.install(shard, made, now_ms, must_rebalance=not is_current)
        self._protocol.take_leave(group, self._protocol.close(group))
        return _joined(new.member_id, classic.generation, classic.protocol_name)

    def sync(self, shard: GroupShard, group: ConsumerGroup, request: SyncGroupRequest) -> SyncGroupResponse:
        """Return the member's assignment.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
                REBALANCE_IN_PROGRESS.
        """
        member, classic = _classic_member(
            group, request.member_id, request.group_instance_id, generation=request.generation_id
        )
        protocol = classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"member {member.member_id} must use protocol {protocol.name} of type {CONSUMER_PROTOCOL_TYPE}",
            )
        if group.assignment_epoch > member.epoch and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
            self._protocol.timers.limit(shard, group, member)
            raise KafkaError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin.",
            )
        assignment = self._migration.assignment(protocol.metadata, member.assigned)
        self._protocol.timers.unlimit(group, member.member_id)
        self._protocol.keep_alive(shard, group, member)
        return SyncGroupResponse(
            protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
        )

    def heartbeat(
        self, shard: GroupShard, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Keep a member alive. The answer REBALANCE_IN_PROGRESS asks it to join again within its rebalance time-out.

        Raises:
            KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member, _ = _classic_member(group, member_id, instance_id, generation=generation)
        self._protocol.keep_alive(shard, group, member)
        if (
            member.epoch < group.assignment_epoch
            or _must_assign(group)
            or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
            or (member.state is ConsumerMemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
        ):
            self._protocol.timers.limit(shard, group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(
        self, shard: GroupShard, group: ConsumerGroup, leaving: Sequence[MemberIdentity], now_ms: int
    ) -> tuple[MemberResponse, ...]:
        """Remove members of either protocol, at their own request or at an administrator's.

        Returns:
            One answer per member: NONE, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.

        Raises:
            KafkaError: The partition cannot be written; no member was removed.
        """
        answers = []
        gone: dict[str, ConsumerMember] = {}
        for identity in leaving:
            instance_id = identity.group_instance_id
            error = ErrorCode.NONE
            try:
                member = _identified(group, identity.member_id, instance_id, by_instance=not identity.member_id)
                gone[member.member_id] = member
            except KafkaError as refused:
                error = refused.code
            answers.append(
                MemberResponse(member_id=identity.member_id, group_instance_id=instance_id, error_code=error)
            )
        if gone:
            log.info("group %s: members leave: %s", group.group_id, ", ".join(gone))
            self._protocol.remove(shard, group, gone.values(), now_ms)
        return tuple(answers)


def _check_protocols(group: ConsumerGroup, member_id: str, request: JoinGroupRequest) -> None:
    """Raise KafkaError INCONSISTENT_GROUP_PROTOCOL unless all classic members offer one of the member's protocols."""
    common = {one.name for one in request.protocols}
    for classic in (member.classic for member in group.members.values()):
        if classic is not None:
            common.intersection_update(one.name for one in classic.supported_protocols)
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not common:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")


def _with_news(
    member: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, caller: Caller
) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=one.name, metadata=one.metadata) for one in request.protocols
            ),
        ),
    )


def _joined(member_id: str, generation: int, protocol_name: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol_name,
        member_id=member_id,
    )


def _identified(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, by_instance: bool = False
) -> ConsumerMember:
    """Return the member with this id, and with this instance id if it is given; with `by_instance` the instance id is enough.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        return group.member(member_id)
    member = group.static_member(instance_id)
    if member is None:
        message = f"Member with instance id {instance_id} is not a member of group {group.group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    if member.member_id != member_id and not by_instance:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, *, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the classic member that sends a request in this generation. Raises KafkaError ILLEGAL_GENERATION, and as
    `_identified`."""
    member = _identified(group, member_id, instance_id)
    if member.classic is None:
        message = f"Member {member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    if member.epoch != generation:
        message = f"generation {generation} does not match {member.epoch}, the epoch of member {member_id}"
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, message)
    return member, member.classic


def _must_assign(group: ConsumerGroup) -> bool:
    """Whether the group needs a new target assignment that neither a job nor the heartbeat of a consumer-protocol member will
    make."""
    is_left = group.epoch > group.assignment_epoch and not group.is_assigning and not group.is_downgrading
    return is_left and group.classic_count == len(group.members)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether another member still owns a partition of this member's target."""
    return any(
        index not in member.assigned.get(topic_id, {}) and not group.owners.is_free(topic_id, index)
        for topic_id, indexes in group.targets.get(member.member_id, {}).items()
        for index in indexes
    )
