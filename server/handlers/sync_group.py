"""SyncGroup, API key 14, versions 0-5.

Behaviour
- Waits until the leader has sent the assignment; the rules are in `groups.classic`.
- From version 5 on protocol type and name must be given, and be the group's (KIP-559).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..connection import Context
from ..coordination.service import Parked

_FIRST_VERSION_WITH_PROTOCOL = 5


async def handle(ctx: Context, request: Request) -> SyncGroupResponse:
    body: SyncGroupRequest = request.body
    if request.version >= _FIRST_VERSION_WITH_PROTOCOL and (body.protocol_type is None or body.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    answer: Parked[SyncGroupResponse] = Parked()
    groups = ctx.broker.groups
    try:
        coordinator = await groups.route(ctx.node, body.group_id)
        coordinator.sync(body, ctx.broker.clock.now_ms(), answer)
        response = await answer.wait(ctx.connection)
        await groups.settle(body.group_id)
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    return response
