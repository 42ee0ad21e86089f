"""CreatePartitions, API key 37, versions 0-3.

Behaviour
- The number of partitions only grows; existing ones keep their records, leaders and offsets.
- A topic that stands twice in the request fails, with one row.

Differs from Apache Kafka
- The broker's own topics keep their number of partitions (INVALID_TOPIC_EXCEPTION): a group's offsets lie in the
  partition that its name and that number give, and would not be found again.
"""

from __future__ import annotations

from collections import Counter

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..connection import Context


async def handle(ctx: Context, request: Request) -> CreatePartitionsResponse:
    body: CreatePartitionsRequest = request.body
    seen = Counter(topic.name for topic in body.topics)
    results = []
    for wanted in {topic.name: topic for topic in body.topics}.values():
        code, message = ErrorCode.NONE, None
        try:
            if seen[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            await _grow(ctx, wanted, body.validate_only)
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(CreatePartitionsTopicResult(name=wanted.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(throttle_time_ms=0, results=tuple(results))


async def _grow(ctx: Context, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = ctx.broker.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no topic {wanted.name}")
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the broker")
    assignments = None if wanted.assignments is None else [tuple(row.broker_ids) for row in wanted.assignments]
    replicas = ctx.broker.admin.plan_growth(topic, wanted.count, assignments)
    if not validate_only:
        await ctx.broker.admin.grow(topic, replicas)
