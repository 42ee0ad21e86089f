"""The records of consumer groups, from the tables and in the order in which Apache Kafka writes them.

A change is a key and a value as messages. It is written down, and then applied to the tables (`replay`), as it will be
when it is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
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
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from ....protocol.messages.consumer_offsets import GroupMetadataKey
from ...coordination.jobs import Steps, in_order
from ..assigning.assignment import Assignment, rows_of
from ..records import Change, ReadyChange, ready
from .member import ConsumerMember, Owned, ResolvedRegex

EPOCH_MAX = 2**31 - 1


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Change:
    """Raises KafkaError UNKNOWN_SERVER_ERROR behind the last epoch: one that begins anew would let members of long ago in."""
    if epoch > EPOCH_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} has reached the maximum epoch {EPOCH_MAX}")
    return ConsumerGroupMetadataKey(group_id=group_id), ConsumerGroupMetadataValue(
        epoch=epoch, metadata_hash=metadata_hash
    )


def classic_tombstone(group_id: str) -> Change:
    """Deletes the classic group of that name."""
    return GroupMetadataKey(group=group_id), None


def old_metadata_tombstone(group_id: str) -> Change:
    return ConsumerGroupPartitionMetadataKey(group_id=group_id), None


def member_metadata(group_id: str, member: ConsumerMember) -> Change:
    return ConsumerGroupMemberMetadataKey(
        group_id=group_id, member_id=member.member_id
    ), ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topic_names)),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )


def writing_member(group_id: str, member: ConsumerMember) -> Steps[ReadyChange]:
    """`member_metadata` and its record, in pieces."""
    names = yield from in_order(member.topic_names)
    without = member_metadata(group_id, replace(member, topic_names=frozenset()))
    return (yield from ready(member, without, {"subscribed_topic_names": tuple(names)}))


def target_metadata(group_id: str, epoch: int, now_ms: int) -> Change:
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> Change:
    return ConsumerGroupTargetAssignmentMemberKey(
        group_id=group_id, member_id=member_id
    ), ConsumerGroupTargetAssignmentMemberValue(topic_partitions=rows_of(TopicPartition, assignment))


def writing_target(group_id: str, member_id: str, assignment: Assignment) -> Steps[ReadyChange]:
    """`target` and its record, in pieces; made of (member id, assignment)."""
    topic_ids, rows = (yield from in_order(assignment)), list[TopicPartition]()
    for topic_id in topic_ids:
        rows.append(TopicPartition(topic_id=topic_id, partitions=tuple(sorted(assignment[topic_id]))))
        yield
    made_of = member_id, assignment
    return (yield from ready(made_of, target(group_id, member_id, {}), {"topic_partitions": tuple(rows)}))


def target_tombstone(group_id: str, member_id: str) -> Change:
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None


def current_assignment(group_id: str, member: ConsumerMember) -> Change:
    return ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    ), ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.revoking),
    )


def writing_current(group_id: str, member: ConsumerMember) -> Steps[ReadyChange]:
    """`current_assignment` and its record, in pieces."""
    assigned = yield from _rows(member.assigned)
    revoking = yield from _rows(member.revoking)
    without = current_assignment(group_id, replace(member, assigned={}, revoking={}))
    arrays = {"assigned_partitions": assigned, "partitions_pending_revocation": revoking}
    return (yield from ready(member, without, arrays))


def _rows(owned: Owned) -> Steps[tuple[TopicPartitions, ...]]:
    topic_ids, rows = (yield from in_order(owned)), list[TopicPartitions]()
    for topic_id in topic_ids:
        rows += _topic_partitions({topic_id: owned[topic_id]})
        yield
    return tuple(rows)


def regex(group_id: str, pattern: str, resolved: ResolvedRegex | None) -> Change:
    """None deletes it."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern)
    if resolved is None:
        return key, None
    topics = tuple(sorted(resolved.topics))
    return key, ConsumerGroupRegularExpressionValue(
        topics=topics, version=resolved.version, timestamp=resolved.resolved_ms
    )


def writing_regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> Steps[ReadyChange]:
    """`regex` and its record, in pieces."""
    names = yield from in_order(resolved.topics)
    without = regex(group_id, pattern, resolved._replace(topics=frozenset()))
    return (yield from ready(resolved, without, {"topics": tuple(names)}))


def current_tombstone(group_id: str, member_id: str) -> Change:
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None


def metadata_tombstone(group_id: str, member_id: str) -> Change:
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None


def member_tombstones(group_id: str, member_id: str) -> list[Change]:
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        metadata_tombstone(group_id, member_id),
    ]


def tombstones(group_id: str, member_ids: Collection[str], regexes: Iterable[str]) -> Iterator[Change]:
    """What deletes a group with all its members."""
    yield from (current_tombstone(group_id, member_id) for member_id in member_ids)
    yield from (target_tombstone(group_id, member_id) for member_id in member_ids)
    yield ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None
    yield from (metadata_tombstone(group_id, member_id) for member_id in member_ids)
    yield from (regex(group_id, pattern, None) for pattern in regexes)
    yield old_metadata_tombstone(group_id)
    yield ConsumerGroupMetadataKey(group_id=group_id), None


def _topic_partitions(owned: Owned) -> tuple[TopicPartitions, ...]:
    rows = []
    for topic_id, epochs in sorted(owned.items()):
        indexes = tuple(sorted(epochs))
        since = tuple(map(epochs.__getitem__, indexes))
        rows.append(TopicPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=since))
    return tuple(rows)


def owned_of(topics: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """Read back what `current_assignment` has written; brokers before 4.3 left the epochs out."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or ()
        if len(epochs) != len(topic.partitions):
            epochs = (max(member_epoch, 0),) * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
