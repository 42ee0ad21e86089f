"""DescribeProducers, API key 61, version 0.

Behaviour
- A partition that is named twice is returned once.
- Returns the producers that each partition remembers, including those with an open transaction (KIP-664). A producer is
  remembered until `producer.id.expiration.ms` after its last batch or marker.
- Every replica answers, as a client may ask a node of its choice.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...storage.produce.producer_state import ProducerState as RememberedProducer
from ..cluster.topic_plans import check_name
from ..partitions.reasons import ErrorMessageBudget
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check
from .routing import replica_of


async def handle(ctx: Context, request: Request) -> DescribeProducersResponse:
    body: DescribeProducersRequest = request.body
    time_slice = TimeSlice()
    wanted: dict[str, dict[int, None]] = {}
    async for topic in time_slice.each(body.topics):
        indexes = wanted.setdefault(topic.name, {})
        async for index in time_slice.each(topic.partition_indexes):
            indexes[index] = None
    reasons, topics = ErrorMessageBudget(), []
    async for name, indexes in time_slice.each(wanted.items()):
        partitions = []
        async for index in time_slice.each(indexes):
            partitions.append(await _describe(ctx, name, index, reasons, time_slice))
        topics.append(TopicResponse(name=name, partitions=tuple(partitions)))
    await time_slice.empty(wanted)
    return DescribeProducersResponse(topics=tuple(topics))


async def _describe(
    ctx: Context, topic: str, index: int, reasons: ErrorMessageBudget, time_slice: TimeSlice
) -> PartitionResponse:
    try:
        check_name(topic)
        check(ctx, AclOperation.READ, ResourceType.TOPIC, topic)
        producers = list(replica_of(ctx, topic, index).log.producers)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=reasons.message_of(error))
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(await time_slice.map(_producer, producers)),
    )


def _producer(state: RememberedProducer) -> ProducerState:
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp=state.last_timestamp,
        coordinator_epoch=state.coordinator_epoch,
        current_txn_start_offset=-1 if state.current_txn_first_offset is None else state.current_txn_first_offset,
    )
