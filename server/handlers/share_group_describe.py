"""ShareGroupDescribe, API key 77, version 1.

Behaviour
- A group that is asked for twice is answered once.
- A group whose members have a topic assigned that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
- State, epochs, members and assignments of share groups; a group of another kind is GROUP_ID_NOT_FOUND.
- UNSUPPORTED_VERSION as in ShareGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..runtime.time_slices import run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import group_operations
from .permissions import check_without_words
from .share_groups import check_served

_UNSEEN = "The group has described topic(s) that the client is not authorized to describe."


async def handle(ctx: Context, request: Request) -> ShareGroupDescribeResponse:
    body: ShareGroupDescribeRequest = request.body
    groups = []
    async for group_id in ctx.time_slice.each(await ctx.time_slice.once(body.group_ids)):
        described = await _describe(ctx, group_id)
        if body.include_authorized_operations and not described.error_code:
            described = replace(described, authorized_operations=group_operations(ctx, group_id))
        groups.append(described)
    return ShareGroupDescribeResponse(groups=tuple(groups))


async def _describe(ctx: Context, group_id: str) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    try:
        check_served(ctx)
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        shard = groups.shard_led(ctx.node, group_id)
        described = await run_cooperatively(groups.coordinator.describe_share_group(group_id))
        await groups.settle(shard)
        if ctx.services.authorizer is not None and not await _may_see(ctx, described):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _UNSEEN)
        return described
    except KafkaError as error:
        message = error.message or None
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


async def _may_see(ctx: Context, group: DescribedGroup) -> bool:
    """Whether the client may describe all topics that members have."""
    seen: set[str] = set()
    for member in group.members:
        async for one in ctx.time_slice.each(member.assignment.topic_partitions):
            if one.topic_name not in seen and not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, one.topic_name):
                return False
            seen.add(one.topic_name)
    return True
