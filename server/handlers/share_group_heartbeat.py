"""ShareGroupHeartbeat, API key 76, version 1.

Behaviour
- A member of a share group joins (epoch 0), stays, or leaves (-1); the rules are in `groups.share.protocol`. Members make their own ids,
  of 36 characters at most.
- A member must be allowed to describe every topic that it names.
- Served while the feature `share.version` is 1; else UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..groups.classic.protocol import Caller
from ..groups.share.requests import check_member_id
from ..runtime.turns import in_turns
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context
from .permissions import check_without_words
from .share_groups import check_served


async def handle(ctx: Context, request: Request) -> ShareGroupHeartbeatResponse:
    body: ShareGroupHeartbeatRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        check_served(ctx)
        check_without_words(ctx, Operation.READ, ResourceType.GROUP, body.group_id)
        check_member_id(body.member_id)
        for at, name in enumerate(body.subscribed_topic_names or ()):
            if at and ctx.turn.is_over():
                await ctx.turn.next()
            check_without_words(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name)
        coordinator = await groups.route(ctx.node, body.group_id)
        caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version)
        ready = await in_turns(coordinator.prepare_share(body, caller), ctx.turn)
        answer = coordinator.share_heartbeat(body, caller, ctx.services.clock.now_ms(), ready)
        await groups.settle(body.group_id)
        return answer
    except KafkaError as error:
        message = error.message or None
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=message)
