"""DescribeShareGroupOffsets, API key 90, versions 0-1.

Behaviour
- A group that is named twice is returned once, for its first row.
- Without topics all partitions are returned for which the group has a state, except those of topics that the client may not
  describe. A group that does not exist has none.
- An unknown start offset is -1; the lag is -1 until a member has read. Version 1 has the lag.
- UNSUPPORTED_VERSION as in ShareGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ..groups.share.states import UNKNOWN_OFFSET, SharePlace, StateSummary
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..services.share_persister import SharePersister
from .permissions import check_without_words, refusal
from .share_groups import check_served

_NO_LAG = -1
_OF_NO_GROUP = "The server experienced an unexpected error when processing the request."


async def handle(ctx: Context, request: Request) -> DescribeShareGroupOffsetsResponse:
    body: DescribeShareGroupOffsetsRequest = request.body
    asked: dict[str, DescribeShareGroupOffsetsRequestGroup] = {}
    groups = []
    async for group in ctx.time_slice.each(body.groups):
        if group.group_id not in asked:
            asked[group.group_id] = group
            groups.append(await _described(ctx, group))
    await ctx.time_slice.empty(asked)
    return DescribeShareGroupOffsetsResponse(groups=tuple(groups))


async def _described(
    ctx: Context, asked: DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    try:
        check_served(ctx)
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        topics = await (
            _describe_all(ctx, group_id) if asked.topics is None else _describe_named(ctx, group_id, asked.topics)
        )
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)
    except KafkaError as error:
        message = error.message or None
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error.code, error_message=message)


async def _describe_all(ctx: Context, group_id: str) -> tuple[DescribeShareGroupOffsetsResponseTopic, ...]:
    groups = ctx.services.coordinators.groups
    groups.shard_led(ctx.node, group_id)
    if not group_id:
        return ()
    partitions = {
        topic_id: one.partitions
        for topic_id, one in groups.coordinator.initialized_share_partitions(group_id).items()
        if (topic := ctx.services.topics.by_id(topic_id)) is not None
        and ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
    }
    summaries = await _summaries(ctx, group_id, partitions)
    found = []
    async for topic_id, indexes in ctx.time_slice.each(partitions.items()):
        topic = ctx.services.topics.by_id(topic_id)
        if topic is not None:
            found.append(await _topic(ctx, topic.name, topic_id, sorted(indexes), summaries))
    await ctx.time_slice.empty(summaries)
    return tuple(found)


async def _describe_named(
    ctx: Context, group_id: str, topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...]
) -> tuple[DescribeShareGroupOffsetsResponseTopic, ...]:
    partitions: dict[bytes, set[int]] = {}
    ids: dict[str, bytes] = {}
    async for topic in ctx.time_slice.each(topics):
        known = ctx.services.topics.get(topic.topic_name)
        if known is not None and ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic_name):
            ids[topic.topic_name] = known.id
            mine = partitions.setdefault(known.id, set())
            async for index in ctx.time_slice.each(topic.partitions):
                if 0 <= index < len(known.partitions):
                    mine.add(index)
    summaries = await _summaries(ctx, group_id, partitions)
    found = []
    async for topic in ctx.time_slice.each(topics):
        name, topic_id = topic.topic_name, ids.get(topic.topic_name)
        if topic_id is not None:
            found.append(await _topic(ctx, name, topic_id, topic.partitions, summaries))
            continue
        error = None
        if not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_attempt=False):
            error = refusal(ResourceType.TOPIC)
        rows = await ctx.time_slice.map(lambda index, error=error: _empty_row(index, error), topic.partitions)  # type: ignore[misc]
        found.append(DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=tuple(rows)))
    await ctx.time_slice.empty(summaries)
    return tuple(found)


async def _summaries(
    ctx: Context, group_id: str, partitions: Mapping[bytes, Collection[int]]
) -> dict[SharePlace, StateSummary]:
    if not any(partitions.values()):
        return {}
    if not group_id:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, _OF_NO_GROUP)  # as in Apache Kafka, which fails on it
    return await SharePersister(ctx.services.coordinators.share_states).summaries(group_id, partitions)


async def _topic(
    ctx: Context,
    name: str,
    topic_id: bytes,
    indexes: tuple[int, ...] | list[int],
    summaries: Mapping[SharePlace, StateSummary],
) -> DescribeShareGroupOffsetsResponseTopic:
    rows = await ctx.time_slice.map(lambda index: _row(ctx, index, topic_id, summaries.get((topic_id, index))), indexes)
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=tuple(rows))


def _row(
    ctx: Context, index: int, topic_id: bytes, summary: StateSummary | None
) -> DescribeShareGroupOffsetsResponsePartition:
    if summary is None or summary.error is not None:
        # Apache Kafka returns no error here.
        return _empty_row(index, None)
    lag = _NO_LAG
    if UNKNOWN_OFFSET not in (summary.start_offset, summary.delivery_complete_count):
        try:
            end = ctx.services.topics.partition_by_id(topic_id, index).log.high_watermark
        except KafkaError as error:
            return _empty_row(index, error)
        # A start offset may be any number; Apache Kafka's lag wraps around, as Java's numbers do.
        lag = (end - summary.start_offset - summary.delivery_complete_count + 2**63) % 2**64 - 2**63
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch, lag=lag
    )


def _empty_row(index: int, error: KafkaError | None) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=UNKNOWN_OFFSET,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message or None,
    )
