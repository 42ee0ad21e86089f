"""LeaveGroup, API key 13, versions 0-5.

Behaviour
- One member up to version 2, with the error of the response; several from version 3 on, each with its own error.
- A static member can be removed by its instance id alone (KIP-345).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ..runtime.time_slices import run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check

_FIRST_BATCHED_VERSION = 3


async def handle(ctx: Context, request: Request) -> LeaveGroupResponse:
    body: LeaveGroupRequest = request.body
    is_batched = request.version >= _FIRST_BATCHED_VERSION
    leaving = body.members if is_batched else (MemberIdentity(member_id=body.member_id),)
    groups = ctx.services.coordinators.groups
    try:
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        shard = await groups.route(ctx.node, body.group_id)
        now_ms = ctx.services.clock.now_ms()
        members = await run_cooperatively(groups.coordinator.leave(shard, body.group_id, leaving, now_ms))
        await groups.settle(shard)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(members=members) if is_batched else LeaveGroupResponse(error_code=members[0].error_code)
