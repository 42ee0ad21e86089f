"""ElectLeaders, API key 43, versions 0-2.

Behaviour
- The preferred election makes the first replica the leader if it is alive. The unclean election takes any live replica of a
  partition without a leader. All replicas are one log, so no records are lost.
- More than CHANGES_MAX elections are refused whole (POLICY_VIOLATION).
- If all partitions are requested (null), those that need no election are left out of the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...storage.disk.paths import TopicPartition
from ..cluster.reassignment import Plan, change, preferred, unclean
from ..partitions.reasons import ErrorMessageBudget
from ..runtime.time_slices import TimeSlice
from ..services.context import Context

ELECTIONS = {0: preferred, 1: unclean}


async def handle(ctx: Context, request: Request) -> ElectLeadersResponse:
    body: ElectLeadersRequest = request.body
    plan = ELECTIONS.get(body.election_type)
    if plan is None:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    time_slice = TimeSlice()
    topics: dict[str, Sequence[int]] = {}
    async for topic in time_slice.each(list(ctx.services.topics) if body.topic_partitions is None else ()):
        topics[topic.name] = range(len(topic.partitions))
    async for row in time_slice.each(body.topic_partitions or ()):
        topics[row.topic] = row.partitions
    wanted: dict[TopicPartition, Plan] = {}
    async for name, indexes in time_slice.each(topics.items()):
        async for index in time_slice.each(indexes):
            wanted[TopicPartition(name, index)] = plan
    refused = await change(ctx.services.cluster, wanted, time_slice)
    results, reasons = [], ErrorMessageBudget()
    async for name, indexes in time_slice.each(topics.items()):
        rows = []
        async for index in time_slice.each(indexes):
            error = refused.get(TopicPartition(name, index))
            is_needless = error is not None and error.code is ErrorCode.ELECTION_NOT_NEEDED
            if body.topic_partitions is not None or not is_needless:
                rows.append(_row(index, error, reasons))
        results.append(ReplicaElectionResult(topic=name, partition_result=tuple(rows)))
    await time_slice.empty(wanted)
    await time_slice.empty(refused)
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=tuple(results))


async def refused(_: Context, request: Request, error: KafkaError) -> ElectLeadersResponse:
    """Return the error for the whole request and in each row."""
    body: ElectLeadersRequest = request.body
    time_slice, reasons, results = TimeSlice(), ErrorMessageBudget(), []
    async for topic in time_slice.each(body.topic_partitions or ()):
        rows = await time_slice.map(partial(_row, error=error, reasons=reasons), topic.partitions)
        results.append(ReplicaElectionResult(topic=topic.topic, partition_result=tuple(rows)))
    return ElectLeadersResponse(error_code=error.code, replica_election_results=tuple(results))


def _row(index: int, error: KafkaError | None, reasons: ErrorMessageBudget) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=reasons.message_of(error) if error else None,
    )
