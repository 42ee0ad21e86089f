"""DescribeGroups, API key 15, versions 0-6.

Behaviour
- A group that is asked for twice is answered once.
- Metadata and assignments are only given of a stable group.
- A group that does not exist is "Dead", from version 6 on with GROUP_ID_NOT_FOUND.
- While `__consumer_offsets` does not exist no group does either: NOT_COORDINATOR, and the topic is not created.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import group_operations
from .permissions import check


async def handle(ctx: Context, request: Request) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    time_slice = TimeSlice()
    groups = []
    async for group_id in time_slice.each(await time_slice.once(body.groups)):
        groups.append(await _describe(ctx, group_id, request.version, time_slice))
    if body.include_authorized_operations:
        groups = await time_slice.map(
            lambda one: (
                one if one.error_code else replace(one, authorized_operations=group_operations(ctx, one.group_id))
            ),
            groups,
        )
    return DescribeGroupsResponse(groups=tuple(groups))


async def _describe(ctx: Context, group_id: str, version: int, time_slice: TimeSlice) -> DescribedGroup:
    try:
        check(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
        groups = ctx.services.coordinators.groups
        shard = groups.shard_led(ctx.node, group_id)
        described = await run_cooperatively(groups.coordinator.describe_group(group_id, version), time_slice)
        await groups.settle(shard)
        return described
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
