"""ElectLeaders, API key 43, versions 0-2.

Behaviour
- The preferred election makes the first replica leader where it is alive, the unclean one any live replica where
  there is no leader. All replicas are one log, so the unclean one loses nothing either.
- Where all partitions are asked for (null), those that need no election are left out of the answer.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...storage.paths import TopicPartition
from ..connection import Context
from ..reasons import Reasons
from ..reassignment import change, preferred, unclean

ELECTIONS = {0: preferred, 1: unclean}


async def handle(ctx: Context, request: Request) -> ElectLeadersResponse:
    body: ElectLeadersRequest = request.body
    plan = ELECTIONS.get(body.election_type)
    if plan is None:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    topics = (
        {topic.name: [partition.index for partition in topic.partitions] for topic in ctx.broker.topics}
        if body.topic_partitions is None
        else {row.topic: list(row.partitions) for row in body.topic_partitions}
    )
    wanted = [TopicPartition(topic, index) for topic, indexes in topics.items() for index in indexes]
    refused = await change(ctx.broker, dict.fromkeys(wanted, plan))
    results, reasons = [], Reasons()
    for topic, indexes in topics.items():
        rows = [_row(index, refused.get(TopicPartition(topic, index)), reasons) for index in indexes]
        if body.topic_partitions is None:
            rows = [row for row in rows if row.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=tuple(rows)))
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=tuple(results))


def _row(index: int, error: KafkaError | None, reasons: Reasons) -> PartitionResult:
    return PartitionResult(
        partition_id=index,
        error_code=error.code if error else ErrorCode.NONE,
        error_message=reasons.of(error) if error else None,
    )
