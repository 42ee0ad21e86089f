"""DescribeTopicPartitions, API key 75, version 0 (KIP-966).

Behaviour
- Topics in order of name, all of them when none is named, at most `response_partition_limit`
  partitions in one answer (and never more than `max.request.partition.size.limit`); the cursor says
  where the next request goes on.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...protocol.wire import ZERO_UUID
from ..authorization import topic_operations
from ..connection import Context
from ..topics import INTERNAL_TOPICS, Partition


async def handle(ctx: Context, request: Request) -> DescribeTopicPartitionsResponse:
    body: DescribeTopicPartitionsRequest = request.body
    broker = ctx.broker
    names = sorted({row.name for row in body.topics} or {topic.name for topic in broker.topics})
    first_partition = 0
    if body.cursor is not None:
        names = [name for name in names if name >= body.cursor.topic_name]
        if names and names[0] == body.cursor.topic_name:
            first_partition = max(0, body.cursor.partition_index)
    left = max(1, min(body.response_partition_limit, broker.config.max_request_partition_size_limit))
    found: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = broker.topics.get(name)
        if topic is None:
            found.append(
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    name=name,
                    topic_id=ZERO_UUID,
                    is_internal=name in INTERNAL_TOPICS,
                    partitions=(),
                    topic_authorized_operations=topic_operations(),
                )
            )
            continue
        if not left:
            return _answer(found, Cursor(topic_name=name, partition_index=0))
        shown = topic.partitions[first_partition : first_partition + left]
        found.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.NONE,
                name=name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=tuple(_partition(partition) for partition in shown),
                topic_authorized_operations=topic_operations(),
            )
        )
        left -= len(shown)
        if first_partition + len(shown) < len(topic.partitions):
            return _answer(found, Cursor(topic_name=name, partition_index=first_partition + len(shown)))
        first_partition = 0
    return _answer(found, None)


def _answer(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=tuple(topics), next_cursor=cursor)


def _partition(partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=(),
        last_known_elr=(),
        offline_replicas=(),
    )
