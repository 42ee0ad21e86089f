"""ConsumerGroupDescribe, API key 69, versions 0-1.

Behaviour
- A group that is asked for twice is answered once.
- A group whose members have a topic assigned that the client may not describe is TOPIC_AUTHORIZATION_FAILED.
- State, epochs, members and assignments of consumer groups; a group of another kind is GROUP_ID_NOT_FOUND.
- UNSUPPORTED_VERSION as in ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import group_operations
from .permissions import check_without_words

_UNSEEN = "The group has described topic(s) that the client is not authorized to describe."


async def handle(ctx: Context, request: Request) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    time_slice = TimeSlice()
    groups = []
    async for group_id in time_slice.each(await time_slice.once(body.group_ids)):
        groups.append(await _describe(ctx, group_id))
    if body.include_authorized_operations:
        groups = await time_slice.map(
            lambda one: (
                one if one.error_code else replace(one, authorized_operations=group_operations(ctx, one.group_id))
            ),
            groups,
        )
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(ctx: Context, group_id: str) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    try:
        groups.check_consumer_protocol()
        check_without_words(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        shard = groups.shard_led(ctx.node, group_id)
        described = await run_cooperatively(groups.coordinator.describe_consumer_group(group_id))
        await groups.settle(shard)
        if ctx.services.authorizer is not None and not await _may_see(ctx, described):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _UNSEEN)
        return described
    except KafkaError as error:
        # Apache Kafka says nothing beside UNSUPPORTED_VERSION.
        message = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


async def _may_see(ctx: Context, group: DescribedGroup) -> bool:
    """Whether the client may describe all topics that members have, or are to have."""
    time_slice = TimeSlice()
    seen: set[str] = set()
    for member in group.members:
        async for one in time_slice.each(
            (*member.assignment.topic_partitions, *member.target_assignment.topic_partitions)
        ):
            if one.topic_name not in seen and not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, one.topic_name):
                return False
            seen.add(one.topic_name)
    return True
