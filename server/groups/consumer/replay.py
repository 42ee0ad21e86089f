"""Effects of each record of a consumer group on its table, at a load and right after the record was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....protocol.messages.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ..reconciled import target_metadata
from .group import ConsumerGroup
from .member import LEAVE_EPOCH, ConsumerMember, ConsumerMemberState, ResolvedRegex
from .records import owned_of


def _group_epoch(group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    if group.bell:
        group.bell.ring()


def _old_metadata(group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: object) -> None:
    group.has_old_metadata = value is not None


def _member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    group.put(
        replace(
            group.members.get(key.member_id) or ConsumerMember(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
    )


def _target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}


def _current_assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}, revoking={}))
        return
    states = ConsumerMemberState.__members__.values()
    group.put(
        replace(
            member or ConsumerMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=ConsumerMemberState(value.state) if value.state in states else ConsumerMemberState.UNKNOWN,
            assigned=owned_of(value.assigned_partitions, value.member_epoch),
            revoking=owned_of(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    resolved = None if value is None else ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    group.resolve(key.regular_expression, resolved)


APPLY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: _group_epoch,
    ConsumerGroupPartitionMetadataKey: _old_metadata,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupTargetAssignmentMetadataKey: target_metadata,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current_assignment,
    ConsumerGroupRegularExpressionKey: _regex,
}
"""Functions that change the table as the record says. A value of None deletes what the key names, except the whole group: the
shard deletes that."""

TAKE: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMemberMetadataKey: lambda group, _, member: group.put(member),
    ConsumerGroupTargetAssignmentMemberKey: lambda group, key, made_of: group.targets.update([made_of]),
    ConsumerGroupCurrentMemberAssignmentKey: lambda group, _, member: group.put(member),
    ConsumerGroupRegularExpressionKey: lambda group, key, resolved: group.resolve(key.regular_expression, resolved),
}
"""Functions that apply the object that a record was made of in pieces (`records.writing_member` and the like), so the record is
not decoded again."""
