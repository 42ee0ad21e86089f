"""AlterPartitionReassignments, API key 45, versions 0-1.

Behaviour
- More than CHANGES_MAX changes are refused whole (POLICY_VIOLATION).
- A partition has its new replicas when the response is sent, as all of them are one log, unless a replica is stopped or
  throttled. Then the reassignment is in progress (`cluster.reassignments`).
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
from ...storage.disk.paths import TopicPartition
from ..cluster.reassignment import NONE_TO_ASSIGN, Plan, cancelled, change, plan_reassignment
from ..partitions.reasons import ErrorMessageBudget
from ..runtime.time_slices import TimeSlice
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> AlterPartitionReassignmentsResponse:
    body: AlterPartitionReassignmentsRequest = request.body
    time_slice = TimeSlice()
    wanted: dict[TopicPartition, Plan] = {}
    async for topic in time_slice.each(body.topics):
        async for row in time_slice.each(topic.partitions):
            wanted[TopicPartition(topic.name, row.partition_index)] = (
                cancelled
                if row.replicas is None
                else plan_reassignment(row.replicas, may_change_factor=body.allow_replication_factor_change)
            )
    refused = await change(ctx.services.cluster, wanted, time_slice, NONE_TO_ASSIGN)
    responses, reasons = [], ErrorMessageBudget()
    async for topic in time_slice.each(body.topics):
        rows = []
        async for row in time_slice.each(topic.partitions):
            rows.append(
                _row(row.partition_index, refused.get(TopicPartition(topic.name, row.partition_index)), reasons)
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(rows)))
    await time_slice.empty(wanted)
    await time_slice.empty(refused)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=body.allow_replication_factor_change,
        error_message=None,
        responses=tuple(responses),
    )


async def refused(_: Context, request: Request, error: KafkaError) -> AlterPartitionReassignmentsResponse:
    """Return the error for the whole request and in each row."""
    body: AlterPartitionReassignmentsRequest = request.body
    time_slice, reasons, responses = TimeSlice(), ErrorMessageBudget(), []
    async for topic in time_slice.each(body.topics):
        rows = await time_slice.map(lambda row: _row(row.partition_index, error, reasons), topic.partitions)
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=tuple(rows)))
    return AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=reasons.message_of(error), responses=tuple(responses)
    )


def _row(index: int, error: KafkaError | None, reasons: ErrorMessageBudget) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=reasons.message_of(error) if error else None,
    )
