"""DeleteGroups, API key 42, versions 0-3.

Behaviour
- Deletes groups without members, with their offsets; of share groups the states first. Each group has its own error, without a
  message: in Apache Kafka only a plug-in for topologies of streams groups makes one.
- While `__consumer_offsets` does not exist no group does either: NOT_COORDINATOR, and the topic is not created.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check


async def handle(ctx: Context, request: Request) -> DeleteGroupsResponse:
    body: DeleteGroupsRequest = request.body
    time_slice = TimeSlice()
    results = []
    async for group_id in time_slice.each(await time_slice.distinct(body.groups_names)):
        results.append(DeletableGroupResult(group_id=group_id, error_code=await _delete(ctx, group_id)))
    return DeleteGroupsResponse(results=tuple(results))


async def _delete(ctx: Context, group_id: str) -> ErrorCode:
    try:
        check(ctx, AclOperation.DELETE, ResourceType.GROUP, group_id)
        groups = ctx.services.coordinators.groups
        shard = groups.shard_led(ctx.node, group_id)
        await groups.shares.forget_all(group_id)
        await run_cooperatively(groups.coordinator.delete_group(group_id, ctx.services.clock.now_ms()))
        await groups.settle(shard)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
