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
from ..connection import Context


async def handle(ctx: Context, request: Request) -> OffsetDeleteResponse:
    body: OffsetDeleteRequest = request.body
    places = [(topic.name, one.partition_index) for topic in body.topics for one in topic.partitions]
    existing = [place for place in dict.fromkeys(places) if _exists(ctx, *place)]
    try:
        groups = ctx.broker.groups
        coordinator = await groups.route(ctx.node, body.group_id)
        deleted = coordinator.delete_offsets(body.group_id, existing, ctx.broker.clock.now_ms())
        await groups.settle(body.group_id)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    errors = dict(zip(existing, deleted, strict=True))
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=errors.get((topic.name, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )


def _exists(ctx: Context, name: str, index: int) -> bool:
    topic = ctx.broker.topics.get(name)
    return topic is not None and 0 <= index < len(topic.partitions)
