"""DescribeGroups, API key 15, versions 0-6.

Behaviour
- A group that is named twice is returned once.
- Metadata and assignments are returned only for a stable group.
- A group that does not exist is "Dead", from version 6 on with GROUP_ID_NOT_FOUND.
- While `__consumer_offsets` does not exist no group does either: NOT_COORDINATOR, and the topic is not created.
"""

from __future__ import annotations

from functools import partial

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
from .group_descriptions import describe_each
from .permissions import check


async def handle(ctx: Context, request: Request) -> DescribeGroupsResponse:
    body: DescribeGroupsRequest = request.body
    with_operations, describe = body.include_authorized_operations, partial(_describe, version=request.version)
    groups = await describe_each(ctx, body.groups, describe, _refused, with_operations=with_operations)
    return DescribeGroupsResponse(groups=groups)


async def _describe(ctx: Context, group_id: str, time_slice: TimeSlice, version: int) -> DescribedGroup:
    check(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
    groups = ctx.services.coordinators.groups
    shard = groups.shard_led(ctx.node, group_id)
    described = await run_cooperatively(groups.coordinator.describe_group(group_id, version), time_slice)
    await groups.settle(shard)
    return described


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code)
