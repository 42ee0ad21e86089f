"""ShareGroupDescribe, API key 77, version 1.

Behaviour
- A group that is named twice is returned once.
- A group whose members have a topic assigned that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
- State, epochs, members and assignments of share groups; a group of another kind is GROUP_ID_NOT_FOUND.
- UNSUPPORTED_VERSION as in ShareGroupHeartbeat.
"""

from __future__ import annotations

from itertools import chain

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .group_descriptions import check_topics, describe_each, message_of
from .permissions import check_without_words
from .share_groups import check_served

_UNSEEN = "The group has described topic(s) that the client is not authorized to describe."


async def handle(ctx: Context, request: Request) -> ShareGroupDescribeResponse:
    body: ShareGroupDescribeRequest = request.body
    with_operations = body.include_authorized_operations
    groups = await describe_each(ctx, body.group_ids, _describe, _refused, with_operations=with_operations)
    return ShareGroupDescribeResponse(groups=groups)


async def _describe(ctx: Context, group_id: str, time_slice: TimeSlice) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    check_served(ctx)
    check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    shard = groups.shard_led(ctx.node, group_id)
    described = await run_cooperatively(groups.coordinator.describe_share_group(group_id), time_slice)
    await groups.settle(shard)
    held = chain.from_iterable(member.assignment.topic_partitions for member in described.members)
    await check_topics(ctx, (one.topic_name for one in held), _UNSEEN, time_slice)
    return described


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message_of(error))
