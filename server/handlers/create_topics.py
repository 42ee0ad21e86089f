"""CreateTopics, API key 19, versions 2-7.

Behaviour
- Each topic succeeds or fails on its own; a name that stands twice in the request fails, with one row.
- −1 takes `num.partitions` and `default.replication.factor`; replicas are spread over the nodes.
- `validate_only` checks everything and changes nothing.
- When the answer is sent the topic is on disk and every node knows it.
"""

from __future__ import annotations

from collections import Counter

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..connection import Context


async def handle(ctx: Context, request: Request) -> CreateTopicsResponse:
    body: CreateTopicsRequest = request.body
    seen = Counter(topic.name for topic in body.topics)
    results = []
    for wanted in {topic.name: topic for topic in body.topics}.values():
        try:
            if seen[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(await _create(ctx, wanted, body.validate_only))
        except KafkaError as error:
            results.append(_refused(wanted.name, error.code, error.message))
    return CreateTopicsResponse(throttle_time_ms=0, topics=tuple(results))


async def _create(ctx: Context, wanted: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    admin = ctx.broker.admin
    configs: dict[str, str] = {}
    for config in wanted.configs:
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    plan = admin.plan(
        wanted.name,
        num_partitions=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=_assignments(wanted),
        configs=configs,
    )
    topic_id = bytes(16) if validate_only else (await admin.create(plan)).id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(plan.replicas),
        replication_factor=len(plan.replicas[0]),
        configs=tuple(
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in admin.effective_configs(configs)
        ),
    )


def _assignments(wanted: CreatableTopic) -> dict[int, tuple[int, ...]]:
    assignments: dict[int, tuple[int, ...]] = {}
    for row in wanted.assignments:
        if row.partition_index in assignments:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {row.partition_index}",
            )
        assignments[row.partition_index] = tuple(row.broker_ids)
    return assignments


def _refused(name: str, code: ErrorCode, message: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, topic_id=bytes(16), error_code=code, error_message=message, configs=())
