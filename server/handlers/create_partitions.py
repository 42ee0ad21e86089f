"""CreatePartitions, API key 37, versions 0-3.

Behaviour
- The number of partitions only grows; existing ones keep their records, leaders and offsets.
- A topic that stands twice in the request fails, with one row.
- A request for more than PARTITIONS_MAX new partitions, or of as many topics, is refused whole (POLICY_VIOLATION).

Differs from Apache Kafka
- The broker's own topics keep their number of partitions (INVALID_TOPIC_EXCEPTION): a group's offsets lie in the
  partition that its name and that number give, and would not be found again.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..cluster.topic_plans import PARTITIONS_MAX
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> CreatePartitionsResponse:
    body: CreatePartitionsRequest = request.body
    time_slice = TimeSlice()
    stands: dict[str, int] = {}
    last: dict[str, CreatePartitionsTopic] = {}
    new = 0
    refused: set[str] = set()
    async for wanted in time_slice.each(body.topics):
        stands[wanted.name] = stands.get(wanted.name, 0) + 1
        last[wanted.name] = wanted
        if not ctx.may(AclOperation.ALTER, ResourceType.TOPIC, wanted.name):
            refused.add(wanted.name)
            continue
        topic = ctx.services.topics.get(wanted.name)
        new += 0 if topic is None else max(0, wanted.count - len(topic.partitions))
    results = []
    async for wanted in time_slice.each(last.values()):
        code, message = ErrorCode.NONE, None
        try:
            if stands[wanted.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if wanted.name in refused:
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for count, what in (new, "new partitions"), (len(last) - len(refused), "topics"):
                if count > PARTITIONS_MAX:
                    raise KafkaError(
                        ErrorCode.POLICY_VIOLATION,
                        f"Too many {what} in one request ({count}, limit {PARTITIONS_MAX}).",
                    )
            await _grow(ctx, wanted, body.validate_only)
        except KafkaError as error:
            code, message = error.code, error.message or None
        results.append(CreatePartitionsTopicResult(name=wanted.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(throttle_time_ms=0, results=tuple(results))


async def _grow(ctx: Context, wanted: CreatePartitionsTopic, validate_only: bool) -> None:
    topic = ctx.services.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {wanted.name} not found")
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
    # One more than can be right are enough to say so.
    most = PARTITIONS_MAX + 1
    assignments = None if wanted.assignments is None else [tuple(row.broker_ids) for row in wanted.assignments[:most]]
    replicas = ctx.services.topic_admin.planner.plan_growth(topic, wanted.count, assignments)
    if ctx.mutations is not None:
        ctx.mutations.record(len(replicas))
    if not validate_only:
        await ctx.services.topic_admin.grow(topic, replicas)
