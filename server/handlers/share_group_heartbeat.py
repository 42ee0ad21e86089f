"""ShareGroupHeartbeat, API key 76, version 1.

Behaviour
- A member of a share group joins (epoch 0), stays, or leaves (-1); the rules are in `groups.share.protocol`. Members make their own ids,
  of 36 characters at most.
- A member must be allowed to describe every topic that it names.
- The response may be held while the group is quiet (`holding`).
- Served unless the feature `share.version` is 0; else UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..groups.classic.protocol import Caller
from ..groups.share.member import check_member_id
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .coordinating import CoordinatorCall, check_topics
from .holding import held
from .permissions import check_without_words
from .share_groups import check_served


def handle(ctx: Context, request: Request) -> Any:
    body: ShareGroupHeartbeatRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        check_served(ctx)
        check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
        check_member_id(body.member_id)
    except KafkaError as error:
        return _refused(error)
    caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version)
    work = partial(groups.coordinator.share_heartbeat, request=body, caller=caller, now_ms=ctx.services.clock.now_ms)
    names, before = body.subscribed_topic_names, None
    if names and ctx.services.authorizer is not None:
        before = partial(check_topics, ctx, names)
    answer = CoordinatorCall(ctx, groups, body.group_id, work, _refused, before).run()
    if groups.held is None:
        return answer
    has_no_news = (
        isinstance(answer, ShareGroupHeartbeatResponse)
        and answer.member_epoch == body.member_epoch
        and answer.assignment is None
    )
    return held(ctx, request, answer, groups, has_news=not has_no_news)


def _refused(error: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
