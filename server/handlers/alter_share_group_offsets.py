"""AlterShareGroupOffsets, API key 91, version 0.

Behaviour
- A share group begins at these offsets; one that does not exist is created. It must not have members (NON_EMPTY_GROUP).
- Each partition has its own error; a topic that is named twice counts for its first row.
- UNSUPPORTED_VERSION as in ShareGroupHeartbeat.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ...protocol.wire import ZERO_UUID, as_array
from ..groups.share.states import Refusals
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check, refusal
from .share_groups import INVALID_GROUP, SHARE_GROUPS_ARE_OFF, UNKNOWN_PARTITION, check_served


async def handle(ctx: Context, request: Request) -> AlterShareGroupOffsetsResponse:
    body: AlterShareGroupOffsetsRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        check_served(ctx)
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        refused: dict[str, KafkaError] = {}
        offsets: dict[bytes, dict[int, int]] = {}
        async for topic in ctx.time_slice.each(body.topics):
            if topic.topic_name not in topics:
                topics[topic.topic_name] = topic
                await _note_topic(ctx, topic, offsets, refused)
        if not body.group_id:
            raise INVALID_GROUP
        shard = await groups.route(ctx.node, body.group_id)
        refusals = await groups.shares.move(body.group_id, offsets)
        await groups.settle(shard)
        answers = []
        async for name in ctx.time_slice.each(refused):  # Apache Kafka lists the refused ones first.
            answers.append(await _topic_response(ctx, topics[name], offsets, refused, refusals))
        async for name, topic in ctx.time_slice.each(topics.items()):
            if name not in refused:
                answers.append(await _topic_response(ctx, topic, offsets, refused, refusals))
        await ctx.time_slice.empty(topics, refused, offsets)
        return AlterShareGroupOffsetsResponse(responses=as_array(answers))
    except KafkaError as error:
        is_off = error.code is ErrorCode.UNSUPPORTED_VERSION
        message = SHARE_GROUPS_ARE_OFF if is_off else error.message or None
        return AlterShareGroupOffsetsResponse(error_code=error.code, error_message=message)


async def _note_topic(
    ctx: Context,
    topic: AlterShareGroupOffsetsRequestTopic,
    offsets: dict[bytes, dict[int, int]],
    refused: dict[str, KafkaError],
) -> None:
    """Note the existing partitions of the topic, or the reason why the whole topic is refused."""
    if not ctx.may(AclOperation.READ, ResourceType.TOPIC, topic.topic_name):
        refused[topic.topic_name] = refusal(ResourceType.TOPIC)
        return
    known = ctx.services.topics.get(topic.topic_name)
    if known is None:
        refused[topic.topic_name] = UNKNOWN_PARTITION
        return
    mine = offsets[known.id] = {}
    async for row in ctx.time_slice.each(topic.partitions):
        if 0 <= row.partition_index < len(known.partitions):
            mine[row.partition_index] = row.start_offset


async def _topic_response(
    ctx: Context,
    topic: AlterShareGroupOffsetsRequestTopic,
    offsets: dict[bytes, dict[int, int]],
    refused: dict[str, KafkaError],
    refusals: Refusals,
) -> AlterShareGroupOffsetsResponseTopic:
    known = ctx.services.topics.get(topic.topic_name)
    topic_id = ZERO_UUID if known is None else known.id
    mine = offsets.get(topic_id, {})

    def row(index: int) -> AlterShareGroupOffsetsResponsePartition:
        error = refused.get(topic.topic_name)
        if error is None:
            error = refusals.get((topic_id, index)) if index in mine else UNKNOWN_PARTITION
        if error is None:
            return AlterShareGroupOffsetsResponsePartition(partition_index=index)
        return AlterShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=error.code, error_message=error.message or None
        )

    rows = await ctx.time_slice.map(lambda one: row(one.partition_index), topic.partitions)
    return AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, topic_id=topic_id, partitions=tuple(rows))
