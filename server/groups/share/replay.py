"""Effects of each record of a share group on its table, at a load and right after the record was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ....protocol.messages import share_group_log as log
from ....protocol.messages.consumer_group_heartbeat import TopicPartitions
from ....protocol.messages.consumer_group_log import TopicPartition
from ..assigning.assignment import Assignment
from ..reconciled import target_metadata
from .group import ShareGroup
from .member import LEAVE_EPOCH, ShareMember
from .states import StateTable, TopicStates


def _group_epoch(group: ShareGroup, key: log.ShareGroupMetadataKey, value: log.ShareGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    if group.bell:
        group.bell.ring()


def _member(
    group: ShareGroup, key: log.ShareGroupMemberMetadataKey, value: log.ShareGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    group.put(
        replace(
            group.members.get(key.member_id) or ShareMember(key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
        )
    )


def _target(
    group: ShareGroup,
    key: log.ShareGroupTargetAssignmentMemberKey,
    value: log.ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    group.set_target(key.member_id, None if value is None else _assignment(value.topic_partitions))


def _current_assignment(
    group: ShareGroup,
    key: log.ShareGroupCurrentMemberAssignmentKey,
    value: log.ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            group.put(replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={}))
        return
    group.put(
        replace(
            member or ShareMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=_assignment(value.assigned_partitions),
        )
    )


def _states(
    group: ShareGroup,
    key: log.ShareGroupStatePartitionMetadataKey,
    value: log.ShareGroupStatePartitionMetadataValue | None,
) -> None:
    if value is None:
        group.set_states(None)
        return
    initializing, initialized = _topic_states(value.initializing_topics, value.initialized_topics)
    group.set_states(
        StateTable(initializing, initialized, {one.topic_id: one.topic_name for one in value.deleting_topics})
    )


def _assignment(topics: Iterable[TopicPartition | TopicPartitions]) -> Assignment:
    assignment = {}
    for one in topics:
        assignment[one.topic_id] = frozenset(one.partitions)
    return assignment


def _topic_states(*tables: Iterable[log.TopicPartitionsInfo]) -> list[dict[bytes, TopicStates]]:
    found = []
    for topics in tables:
        states = {}
        for one in topics:
            states[one.topic_id] = TopicStates(one.topic_name, frozenset(one.partitions))
        found.append(states)
    return found


APPLY: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
    log.ShareGroupMemberMetadataKey: _member,
    log.ShareGroupMetadataKey: _group_epoch,
    log.ShareGroupTargetAssignmentMetadataKey: target_metadata,
    log.ShareGroupTargetAssignmentMemberKey: _target,
    log.ShareGroupCurrentMemberAssignmentKey: _current_assignment,
    log.ShareGroupStatePartitionMetadataKey: _states,
}
"""Functions that change the table as the record says. A value of None deletes what the key names, except the whole group: the
shard deletes that."""

TAKE: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
    log.ShareGroupMemberMetadataKey: lambda group, _, member: group.put(member),
}
"""Functions that apply the object that a record was made of in pieces, so the record is not decoded again."""
