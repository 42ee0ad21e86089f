"""DeleteShareGroupOffsets, API key 92, version 0.

Behaviour
- A share group starts afresh in these topics. It must not have members (NON_EMPTY_GROUP).
- Each topic has its own error: UNKNOWN_TOPIC_OR_PARTITION also if the group has no states. A topic that is named twice has one
  row.
- UNSUPPORTED_VERSION as in ShareGroupHeartbeat.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ...protocol.wire import ZERO_UUID
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check, refusal
from .share_groups import INVALID_GROUP, SHARE_GROUPS_ARE_OFF, UNKNOWN_PARTITION, check_served

_NOTHING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete.")


async def handle(ctx: Context, request: Request) -> DeleteShareGroupOffsetsResponse:
    body: DeleteShareGroupOffsetsRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        check_served(ctx)
        check(ctx, AclOperation.DELETE, ResourceType.GROUP, body.group_id)
        refused: dict[str, KafkaError] = {}
        ids: dict[str, bytes] = {}
        async for topic in ctx.time_slice.each(body.topics):
            known = ctx.services.topics.get(topic.topic_name)
            if not ctx.may(AclOperation.READ, ResourceType.TOPIC, topic.topic_name):
                refused[topic.topic_name] = refusal(ResourceType.TOPIC)
            elif known is None:
                refused[topic.topic_name] = UNKNOWN_PARTITION
            else:
                ids[topic.topic_name] = known.id
        if not body.group_id:
            raise INVALID_GROUP
        shard = groups.shard_led(ctx.node, body.group_id)
        had, refusals = await groups.shares.forget(body.group_id, ids.values())
        await groups.settle(shard)
    except KafkaError as error:
        is_off = error.code is ErrorCode.UNSUPPORTED_VERSION
        message = SHARE_GROUPS_ARE_OFF if is_off else error.message or None
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=message)
    failed = {topic_id: error for (topic_id, _), error in refusals.items()}
    for name, topic_id in ids.items():
        if topic_id in failed:
            refused[name] = failed[topic_id]
        elif topic_id not in had:
            refused[name] = _NOTHING

    def topic_response(name: str) -> DeleteShareGroupOffsetsResponseTopic:
        error = refused.get(name)
        if error is None:
            return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ids[name])
        topic_id = ids[name] if name in ids and error is not _NOTHING else ZERO_UUID
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic_id, error_code=error.code, error_message=error.message or None
        )

    rows = await ctx.time_slice.map(
        topic_response, await ctx.time_slice.distinct(topic.topic_name for topic in body.topics)
    )
    return DeleteShareGroupOffsetsResponse(responses=tuple(rows))
