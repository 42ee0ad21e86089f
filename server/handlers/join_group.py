"""JoinGroup, API key 11, versions 0-9.

Behaviour
- Waits until the group's rebalance is over; the rules are in `groups.classic`.
- Version 0 has no rebalance time-out: the session time-out is used for it.
- From version 4 on a new dynamic member gets its id first and must join again with it (KIP-394).
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..coordination.service import ParkedAnswer
from ..groups.classic.protocol import Caller
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check, seeing

# Up to this version the protocol name cannot be null.
_LAST_VERSION_WITH_NAME = 6


async def handle(ctx: Context, request: Request) -> JoinGroupResponse:
    body: JoinGroupRequest = request.body
    if request.version == 0:
        body = replace(body, rebalance_timeout_ms=body.session_timeout_ms)
    caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version, seeing(ctx))
    groups = ctx.services.coordinators.groups
    answer: ParkedAnswer[JoinGroupResponse] = ParkedAnswer(groups.wakeup_throttle)
    try:
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        shard = await groups.route(ctx.node, body.group_id)
        groups.coordinator.join(shard, body, caller, ctx.services.clock.now_ms(), answer)
        response = await answer.wait(ctx.client)
        await groups.settle(shard)
    except KafkaError as error:
        response = JoinGroupResponse(error_code=error.code, member_id=body.member_id, protocol_name=None)
    if request.version <= _LAST_VERSION_WITH_NAME and response.protocol_name is None:
        response = replace(response, protocol_name="")
    return response
