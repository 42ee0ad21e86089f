"""The records of share groups, from the tables and in the order in which Apache Kafka writes them.

A change is a key and a value as messages. It is written down, and then applied to the tables (`replay`), as it will be
when it is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import share_group_log as log
from ....protocol.messages.consumer_group_heartbeat import TopicPartitions
from ....protocol.messages.consumer_group_log import TopicPartition
from ...coordination.jobs import AT_ONCE, Steps, in_order
from ...coordination.records import Pair
from ..assigning.assignment import Assignment, rows_of
from ..records import Change, ReadyChange, ready, write_record, writing_record
from .member import ShareMember
from .states import StateTable, TopicStates

EPOCH_MAX = 2**31 - 1


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """Raises KafkaError UNKNOWN_SERVER_ERROR behind the last epoch: one that begins anew would let members of long ago in."""
    if epoch > EPOCH_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} has reached the maximum epoch {EPOCH_MAX}")
    return log.ShareGroupMetadataKey(group_id=group_id), log.ShareGroupMetadataValue(
        epoch=epoch, metadata_hash=metadata_hash
    )


def member_metadata(group_id: str, member: ShareMember) -> Change:
    return log.ShareGroupMemberMetadataKey(
        group_id=group_id, member_id=member.member_id
    ), log.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
    )


def writing_member(group_id: str, member: ShareMember) -> Steps[ReadyChange]:
    """`member_metadata` and its record, in pieces."""
    names = yield from in_order(member.topic_names)
    without = member_metadata(group_id, replace(member, topic_names=frozenset()))
    return (yield from ready(member, without, {"subscribed_topic_names": tuple(names)}))


def target_metadata(group_id: str, epoch: int, now_ms: int) -> Change:
    return log.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), log.ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> Change:
    return log.ShareGroupTargetAssignmentMemberKey(
        group_id=group_id, member_id=member_id
    ), log.ShareGroupTargetAssignmentMemberValue(topic_partitions=rows_of(TopicPartition, assignment))


def writing_target(group_id: str, member_id: str, assignment: Assignment) -> Steps[Pair]:
    """The record of `target`, in pieces."""
    if len(assignment) <= AT_ONCE:
        return write_record(*target(group_id, member_id, assignment))
    topic_ids = yield from in_order(assignment)
    rows = (TopicPartition(topic_id=one, partitions=tuple(sorted(assignment[one]))) for one in topic_ids)
    return (yield from writing_record(*target(group_id, member_id, {}), {"topic_partitions": rows}))


def target_tombstone(group_id: str, member_id: str) -> Change:
    return log.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None


def current_assignment(group_id: str, member: ShareMember) -> Change:
    return log.ShareGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    ), log.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=rows_of(TopicPartitions, member.assigned),
    )


def state_partitions(group_id: str, states: StateTable) -> Change:
    initializing, initialized = _infos(states.initializing, states.initialized)
    return log.ShareGroupStatePartitionMetadataKey(group_id=group_id), log.ShareGroupStatePartitionMetadataValue(
        initializing_topics=initializing,
        initialized_topics=initialized,
        deleting_topics=tuple(
            log.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(states.deleting.items())
        ),
    )


def _infos(*tables: Mapping[bytes, TopicStates]) -> list[tuple[log.TopicPartitionsInfo, ...]]:
    found = []
    for topics in tables:
        infos = []
        for topic_id, (name, partitions) in sorted(topics.items()):
            row = log.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=tuple(sorted(partitions)))
            infos.append(row)
        found.append(tuple(infos))
    return found


def current_tombstone(group_id: str, member_id: str) -> Change:
    return log.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None


def metadata_tombstone(group_id: str, member_id: str) -> Change:
    return log.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None


def member_tombstones(group_id: str, member_id: str) -> list[Change]:
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        metadata_tombstone(group_id, member_id),
    ]


def tombstones(group_id: str, member_ids: Collection[str]) -> Iterator[Change]:
    """What deletes a group with all its members."""
    yield from (current_tombstone(group_id, member_id) for member_id in member_ids)
    yield from (target_tombstone(group_id, member_id) for member_id in member_ids)
    yield log.ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None
    yield from (metadata_tombstone(group_id, member_id) for member_id in member_ids)
    yield log.ShareGroupStatePartitionMetadataKey(group_id=group_id), None
    yield log.ShareGroupMetadataKey(group_id=group_id), None
