"""CreateTopics, API key 19, versions 2-7.

Behaviour
- Each topic succeeds or fails on its own; a name that stands twice in the request fails, with one row.
- −1 takes `num.partitions` and `default.replication.factor`; replicas are spread over the nodes.
- A request for more than PARTITIONS_MAX partitions, in all its topics, is refused whole (POLICY_VIOLATION).
- `validate_only` checks everything and changes nothing.
- CREATE on the cluster or on the topic; what a topic has become is told to those who may describe its configs.
- When the answer is sent the topic is on disk and every node knows it.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..cluster.topic_plans import PARTITIONS_MAX
from ..config.resources import describe_topic
from ..runtime.turns import Turn
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> CreateTopicsResponse:
    body: CreateTopicsRequest = request.body
    turn = Turn()
    stands: dict[str, int] = {}
    last: dict[str, CreatableTopic] = {}
    partitions = 0
    may_create_any = ctx.may(Operation.CREATE, ResourceType.CLUSTER, is_attempt=False)
    refused: set[str] = set()
    for topic in body.topics:
        if turn.is_over():
            await turn.next()
        stands[topic.name] = stands.get(topic.name, 0) + 1
        last[topic.name] = topic
        if may_create_any or ctx.may(Operation.CREATE, ResourceType.TOPIC, topic.name):
            partitions += _partitions_of(ctx, topic)
        else:
            refused.add(topic.name)
    results = []
    for wanted in last.values():
        if turn.is_over():
            await turn.next()
        try:
            if stands[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if wanted.name in refused:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            if partitions > PARTITIONS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{partitions} partitions in one request; at most {PARTITIONS_MAX} are allowed.",
                )
            results.append(await _create(ctx, wanted, body.validate_only, turn))
        except KafkaError as error:
            results.append(_refused(wanted.name, error.code, error.message or None))
    return CreateTopicsResponse(throttle_time_ms=0, topics=tuple(results))


def _partitions_of(ctx: Context, topic: CreatableTopic) -> int:
    """How many it counts for the limit; one of which the number is wrong for none, as in Apache Kafka."""
    if topic.assignments:
        return len(topic.assignments)
    return ctx.services.config.current.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


async def _create(ctx: Context, wanted: CreatableTopic, validate_only: bool, turn: Turn) -> CreatableTopicResult:
    admin = ctx.services.topic_admin
    configs: dict[str, str] = {}
    for config in wanted.configs:
        if turn.is_over():
            await turn.next()
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    plan = admin.planner.plan(
        wanted.name,
        num_partitions=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=_assignments(wanted),
        configs=configs,
    )
    if ctx.mutations is not None:
        ctx.mutations.record(len(plan.replicas))
    # Apache Kafka gives one to what it only validates, too.
    topic_id = admin.new_id() if validate_only else (await admin.create(plan)).id
    if not ctx.may(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, wanted.name, is_attempt=False):
        return CreatableTopicResult(
            name=wanted.name,
            topic_id=topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=(),
        )
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
            for entry in describe_topic(ctx.services.config.current, configs)
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


def _refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, topic_id=bytes(16), error_code=code, error_message=message, configs=())
