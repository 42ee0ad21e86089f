"""CreateTopics, API key 19, versions 2-7.

Behaviour
- Each topic succeeds or fails on its own, unless the disk refuses, and all that succeed are one write; a name that is in the
  request twice fails, with one row.
- −1 takes `num.partitions` and `default.replication.factor`; replicas are spread over the nodes.
- A request for more than PARTITIONS_MAX partitions, in all its topics, is refused whole (POLICY_VIOLATION).
- `validate_only` checks everything and changes nothing.
- Needs CREATE on the cluster or on the topic; the configs of the new topic are returned to clients that may describe them.
- When the answer is sent the catalog on disk has the topics, and every node knows them. Their logs follow
  (`LogManager.promise`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..cluster.topic_plans import PARTITIONS_MAX, TopicPlan
from ..config.resources import describe_topic
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> CreateTopicsResponse:
    body: CreateTopicsRequest = request.body
    time_slice = TimeSlice()
    stands: dict[str, int] = {}
    last: dict[str, CreatableTopic] = {}
    partitions = 0
    may_create_any = ctx.may(AclOperation.CREATE, ResourceType.CLUSTER, is_attempt=False)
    refused: set[str] = set()
    async for topic in time_slice.each(body.topics):
        stands[topic.name] = stands.get(topic.name, 0) + 1
        last[topic.name] = topic
        if may_create_any or ctx.may(AclOperation.CREATE, ResourceType.TOPIC, topic.name):
            partitions += _partitions_of(ctx, topic)
        else:
            refused.add(topic.name)
    results: dict[str, CreatableTopicResult] = {}
    plans: dict[str, TopicPlan] = {}
    async for wanted in time_slice.each(last.values()):
        try:
            if stands[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if wanted.name in refused:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            if partitions > PARTITIONS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Too many partitions in one request ({partitions}, limit {PARTITIONS_MAX}).",
                )
            plans[wanted.name] = await _plan(ctx, wanted, time_slice)
        except KafkaError as error:
            results[wanted.name] = _refused(wanted.name, error)
    async for plan, made in time_slice.each(
        zip(plans.values(), await _create(ctx, [*plans.values()], body.validate_only), strict=True)
    ):
        results[plan.name] = _refused(plan.name, made) if isinstance(made, KafkaError) else _created(ctx, plan, made)
    await time_slice.empty(plans)
    return CreateTopicsResponse(throttle_time_ms=0, topics=tuple([results[name] for name in last]))


async def _create(ctx: Context, plans: Sequence[TopicPlan], validate_only: bool) -> Sequence[bytes | KafkaError]:
    """Create the topics; return the id or error of each. With `validate_only` none is created."""
    admin = ctx.services.topic_admin
    if validate_only:
        # Apache Kafka also returns an id for a topic that it only validates.
        return await ctx.time_slice.map(lambda _: admin.new_id(), plans)
    try:
        return [each if isinstance(each, KafkaError) else each.id for each in await admin.create_all(plans)]
    except KafkaError as error:
        return [error] * len(plans)


def _partitions_of(ctx: Context, topic: CreatableTopic) -> int:
    """Return how many partitions the topic counts for the limit; 0 if the number is invalid, as in Apache Kafka."""
    if topic.assignments:
        return len(topic.assignments)
    return ctx.services.config.current.num_partitions if topic.num_partitions == -1 else max(0, topic.num_partitions)


async def _plan(ctx: Context, wanted: CreatableTopic, time_slice: TimeSlice) -> TopicPlan:
    configs: dict[str, str] = {}
    async for config in time_slice.each(wanted.configs):
        if config.value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {config.name}")
        configs[config.name] = config.value
    plan = ctx.services.topic_admin.planner.plan(
        wanted.name,
        num_partitions=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=_assignments(wanted),
        configs=configs,
    )
    if ctx.mutations is not None:
        ctx.mutations.record(len(plan.replicas))
    return plan


def _created(ctx: Context, plan: TopicPlan, topic_id: bytes) -> CreatableTopicResult:
    if not ctx.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.name, is_attempt=False):
        return CreatableTopicResult(
            name=plan.name,
            topic_id=topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=(),
        )
    return CreatableTopicResult(
        name=plan.name,
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
            for entry in describe_topic(ctx.services.config.current, plan.configs)
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


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, topic_id=bytes(16), error_code=error.code, error_message=error.message or None, configs=()
    )
