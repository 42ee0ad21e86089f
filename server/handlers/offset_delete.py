"""OffsetDelete, API key 47, version 0.

Behaviour
- Deletes committed offsets of a group (KIP-496); a consumer group at work keeps those of topics it subscribes to
  (GROUP_SUBSCRIBED_TO_TOPIC), any other group at work keeps all (NON_EMPTY_GROUP).
- Where nothing was committed, nothing is wrong; an unknown topic or partition is.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..groups.offset_table import Place
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> OffsetDeleteResponse:
    body: OffsetDeleteRequest = request.body
    time_slice = TimeSlice()
    # As many as there are partitions, whatever the request repeats.
    existing: dict[Place, None] = {}
    if not ctx.may(AclOperation.DELETE, ResourceType.GROUP, body.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    missing: dict[str, ErrorCode] = {}
    async for topic in time_slice.each(body.topics):
        if not ctx.may(AclOperation.READ, ResourceType.TOPIC, topic.name):
            missing[topic.name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        async for one in time_slice.each(topic.partitions):
            if _exists(ctx, topic.name, one.partition_index):
                existing[topic.name, one.partition_index] = None
    try:
        groups = ctx.services.coordinators.groups
        shard = await groups.route(ctx.node, body.group_id)
        now_ms = ctx.services.clock.now_ms()
        errors = await run_cooperatively(
            groups.coordinator.delete_offsets(shard, body.group_id, tuple(existing), now_ms)
        )
        await groups.settle(shard)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    time_slice.begin()
    answers = []
    async for topic in time_slice.each(body.topics):
        answers.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    await time_slice.map(
                        lambda one, name=topic.name: OffsetDeleteResponsePartition(  # type: ignore[misc]
                            partition_index=one.partition_index,
                            error_code=errors.get(
                                (name, one.partition_index),
                                missing.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                            ),
                        ),
                        topic.partitions,
                    )
                ),
            )
        )
    return OffsetDeleteResponse(topics=tuple(answers))


def _exists(ctx: Context, name: str, index: int) -> bool:
    topic = ctx.services.topics.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)
