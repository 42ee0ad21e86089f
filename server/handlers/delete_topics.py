"""DeleteTopics, API key 20, versions 1-6.

Behaviour
- By name, or by id from version 6 (KIP-516); all are one write. When the answer is sent no node knows the topic any more;
  its files go after `file.delete.delay.ms`.
- A topic that stands twice in the request fails, with one row.
- More than TOPICS_MAX topics that are there are refused (POLICY_VIOLATION), and none is deleted.
- The broker's own topics go with what their coordinators keep, and are made anew when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...protocol.wire import ZERO_UUID, as_array
from ..partitions.topics import Topic
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check, refusal

# Older clients do not know the code TOPIC_DELETION_DISABLED.
DELETION_DISABLED_SINCE = 3


TOPICS_MAX = 10_000
"""Apache Kafka's controller writes no more records for one request."""


async def handle(ctx: Context, request: Request) -> DeleteTopicsResponse:
    body: DeleteTopicsRequest = request.body
    time_slice = TimeSlice()
    stands: dict[tuple[str | None, bytes], int] = {}
    by_name: Iterable[tuple[str | None, bytes]] = ((name, ZERO_UUID) for name in body.topic_names)
    async for key in time_slice.each(((row.name, row.topic_id) for row in body.topics) if body.topics else by_name):
        stands[key] = stands.get(key, 0) + 1
    found: list[tuple[DeleteTopicState, Topic]] = []
    named: dict[bytes, int] = {}
    results = []
    async for key, times in time_slice.each(stands.items()):
        row = DeleteTopicState(name=key[0], topic_id=key[1])
        try:
            if times > 1:
                what = "id" if row.name is None else "name"
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            topic = _find(ctx, row)
            found.append((row, topic))
            named[topic.id] = named.get(topic.id, 0) + 1
        except KafkaError as error:
            results.append(_refused(ctx, row, error, request.version))
    going: list[tuple[DeleteTopicState, Topic]] = []
    async for row, topic in time_slice.each(found):
        if named[topic.id] > 1 and row.name is None:
            continue  # The row of its name tells.
        try:
            if named[topic.id] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Topic specified by both name and ID.")
            if len(named) > TOPICS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Too many topics in one request ({len(named)}, limit {TOPICS_MAX}).",
                )
            if ctx.mutations is not None:
                ctx.mutations.record(len(topic.partitions))
            going.append((row, topic))
        except KafkaError as error:
            results.append(_refused(ctx, row, error, request.version))
    async for (row, topic), why_not in time_slice.each(
        zip(going, await _deleted(ctx, [topic for _, topic in going]), strict=True)
    ):
        if why_not is None:
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id, error_code=ErrorCode.NONE))
        else:
            results.append(_refused(ctx, row, why_not, request.version))
    await time_slice.empty(stands, found, going)
    return DeleteTopicsResponse(throttle_time_ms=0, responses=as_array(results))


async def _deleted(ctx: Context, topics: Sequence[Topic]) -> Sequence[KafkaError | None]:
    """Of each None once it is deleted, or why it is not."""
    try:
        return await ctx.services.topic_admin.delete_all(topics)
    except KafkaError as error:
        return [error] * len(topics)


def _refused(ctx: Context, row: DeleteTopicState, error: KafkaError, version: int) -> DeletableTopicResult:
    code = error.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and version < DELETION_DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    name = row.name
    if name is None and code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        # The name of a topic with an id is told to those who may describe it.
        topic = ctx.services.topics.by_id(row.topic_id)
        if topic and ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, is_attempt=False):
            name = topic.name
    return DeletableTopicResult(name=name, topic_id=row.topic_id, error_code=code, error_message=error.message or None)


def _find(ctx: Context, row: DeleteTopicState) -> Topic:
    topics = ctx.services.topics
    may_all = ctx.may(AclOperation.DELETE, ResourceType.CLUSTER, is_attempt=False)
    if row.name is not None and row.topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if row.name is None and row.topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if row.name is not None:
        if not may_all:
            check(ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, row.name)
        topic = topics.get(row.name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {row.name} not found")
    else:
        topic = topics.by_id(row.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic ID {row.topic_id.hex()} not found")
        if not may_all and not ctx.may(AclOperation.DELETE, ResourceType.TOPIC, topic.name):
            raise refusal(ResourceType.TOPIC)
    if not may_all:
        check(ctx, AclOperation.DELETE, ResourceType.TOPIC, topic.name)
    return topic
