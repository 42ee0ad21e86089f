"""DescribeProducers, API key 61, version 0.

Behaviour
- A partition that is asked for twice is answered once.
- Tells the producers that each partition remembers, those with an open transaction among them (KIP-664). A producer is
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
from ..connection import Context
from ..reasons import Reasons
from ..routing import replica_of


async def handle(ctx: Context, request: Request) -> DescribeProducersResponse:
    body: DescribeProducersRequest = request.body
    wanted: dict[str, dict[int, None]] = {}
    for topic in body.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    reasons = Reasons()
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(name=name, partitions=tuple(_describe(ctx, name, index, reasons) for index in indexes))
            for name, indexes in wanted.items()
        )
    )


def _describe(ctx: Context, topic: str, index: int, reasons: Reasons) -> PartitionResponse:
    try:
        ctx.broker.admin.check_name(topic)
        producers = replica_of(ctx, topic, index).log.producers
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=reasons.of(error))
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=(
                    -1 if state.current_txn_first_offset is None else state.current_txn_first_offset
                ),
            )
            for state in producers
        ),
    )
