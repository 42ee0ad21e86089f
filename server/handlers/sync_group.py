"""SyncGroup, API key 14, versions 0-5.

Behaviour
- Waits until the leader has sent the assignment; the rules are in `groups.classic`.
- The response to a member that gets no partition may be held for a moment (`holding`).
- From version 5 on protocol type and name must be given, and be the group's (KIP-559).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import trio

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ..coordination.service import ParkedAnswer
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .holding import held_sync
from .permissions import check

_FIRST_VERSION_WITH_PROTOCOL = 5
# More are filtered in time slices.
ASSIGNMENTS_AT_ONCE = 1_000


async def handle(ctx: Context, request: Request) -> Any:
    body: SyncGroupRequest = request.body
    if request.version >= _FIRST_VERSION_WITH_PROTOCOL and (body.protocol_type is None or body.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    groups = ctx.services.coordinators.groups
    answer: ParkedAnswer[SyncGroupResponse] = ParkedAnswer(groups.wakeup_throttle)
    try:
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        shard = await groups.route(ctx.node, body.group_id)
        if len(body.assignments) > ASSIGNMENTS_AT_ONCE:
            body = await _with_members_only(body, groups.coordinator.member_ids(shard, body.group_id), ctx.time_slice)
        groups.coordinator.sync(shard, body, ctx.services.clock.now_ms(), answer)
        response = await answer.wait(ctx.client)
        await groups.settle(shard)
        ctx.client.heartbeat_s = trio.current_time()
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    return response if groups.held is None else held_sync(ctx, request, response, groups)


async def _with_members_only(
    body: SyncGroupRequest, member_ids: Collection[str], time_slice: TimeSlice
) -> SyncGroupRequest:
    """Return the request with the assignments of members only, one each: the last. A member that joins during this begins
    another generation, for which the request is of no use."""
    found: dict[str, SyncGroupRequestAssignment] = {}
    async for one in time_slice.each(body.assignments):
        if one.member_id in member_ids:
            found[one.member_id] = one
    return replace(body, assignments=tuple(found.values()))
