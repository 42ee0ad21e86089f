"""ListPartitionReassignments, API key 46, version 0.

Behaviour
- Lists reassignments in progress, all of them or those of the named partitions; a partition that is unknown, or has none, is
  left out.
"""

from __future__ import annotations

from collections import defaultdict

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ...storage.disk.paths import TopicPartition
from ..runtime.time_slices import TimeSlice
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> ListPartitionReassignmentsResponse:
    body: ListPartitionReassignmentsRequest = request.body
    under_way = ctx.services.cluster.under_way
    time_slice = TimeSlice()
    wanted = list(under_way)
    if body.topics is not None:
        named = []
        for row in body.topics:
            async for index in time_slice.each(row.partition_indexes):
                if (where := TopicPartition(row.name, index)) in under_way:
                    named.append(where)
        wanted = list(await time_slice.distinct(named))
    topics: defaultdict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
    async for where in time_slice.each(wanted):
        partition = under_way.get(where)
        if partition is None or partition.reassigning is None:
            continue  # it has ended since
        topics[where.topic].append(
            OngoingPartitionReassignment(
                partition_index=where.partition,
                replicas=partition.replicas,
                adding_replicas=partition.reassigning.adding,
                removing_replicas=partition.reassigning.removing,
            )
        )
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=tuple(OngoingTopicReassignment(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
    )


async def refused(_: Context, request: Request, error: KafkaError) -> ListPartitionReassignmentsResponse:
    """Return the error with the requested partitions, as Apache Kafka does."""
    body: ListPartitionReassignmentsRequest = request.body
    time_slice, topics = TimeSlice(), []
    async for topic in time_slice.each(body.topics or ()):
        rows = await time_slice.map(
            lambda index: OngoingPartitionReassignment(partition_index=index), topic.partition_indexes
        )
        topics.append(OngoingTopicReassignment(name=topic.name, partitions=tuple(rows)))
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message, topics=tuple(topics))
