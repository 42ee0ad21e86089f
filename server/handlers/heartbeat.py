"""Heartbeat, API key 12, versions 0-4.

Behaviour
- Keeps the member's session; REBALANCE_IN_PROGRESS tells it to join again.
- While the group is being loaded every heartbeat is answered well, as nobody can be found to have failed.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context
from .permissions import check


async def handle(ctx: Context, request: Request) -> HeartbeatResponse:
    body: HeartbeatRequest = request.body
    try:
        check(ctx, Operation.READ, ResourceType.GROUP, body.group_id)
        coordinator = await ctx.services.coordinators.groups.route(ctx.node, body.group_id)
        error = coordinator.heartbeat(body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    except KafkaError as failure:
        error = ErrorCode.NONE if failure.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else failure.code
    return HeartbeatResponse(error_code=error)
