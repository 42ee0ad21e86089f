"""AlterPartitionReassignments, API key 45, versions 0-1.

Behaviour
- A partition has its new replicas when the answer is sent: they all are one log.

Differs from Apache Kafka
- New replicas of which none is alive are refused (INVALID_REPLICA_ASSIGNMENT) instead of waited for.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...storage.paths import TopicPartition
from ..connection import Context
from ..reasons import Reasons
from ..reassignment import cancelled, change, onto


async def handle(ctx: Context, request: Request) -> AlterPartitionReassignmentsResponse:
    body: AlterPartitionReassignmentsRequest = request.body
    refused = await change(
        ctx.broker,
        {
            TopicPartition(topic.name, row.partition_index): cancelled
            if row.replicas is None
            else onto(row.replicas, may_change_factor=body.allow_replication_factor_change)
            for topic in body.topics
            for row in topic.partitions
        },
    )
    reasons = Reasons()
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _row(row.partition_index, refused.get(TopicPartition(topic.name, row.partition_index)), reasons)
                    for row in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _row(index: int, error: KafkaError | None, reasons: Reasons) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=reasons.of(error) if error else None,
    )
