"""Heartbeat, API key 12, versions 0-4.

Behaviour
- Keeps the member's session; after REBALANCE_IN_PROGRESS the member joins again.
- The response may be held while the group is quiet (`holding`). The same request again needs no look-ups then.
- While the group is loading every heartbeat succeeds, as the coordinator cannot know which members have failed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..coordination.jobs import Steps
from ..groups.coordinator import GroupCoordinator
from ..groups.shard import GroupShard
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .coordinating import CoordinatorCall
from .holding import held
from .permissions import check


def handle(ctx: Context, request: Request) -> Any:
    body: HeartbeatRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        check(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    except KafkaError as error:
        return _refused(error)
    if (last := ctx.client.quiet) is not None:
        same, answer, quiet = last
        if body == same and groups.coordinator.keep_alive(quiet, body.member_id):
            return held(ctx, request, answer, groups, quiet=quiet)
        ctx.client.quiet = None
    # Its answer does not depend on records that a power loss could remove.
    work = partial(_beat, groups.coordinator, body)
    answer = CoordinatorCall(ctx, groups, body.group_id, work, _refused, settles=False).run()
    if groups.held is None:
        return answer
    has_no_news = isinstance(answer, HeartbeatResponse) and not answer.error_code
    return held(ctx, request, answer, groups, has_news=not has_no_news)


def _beat(coordinator: GroupCoordinator, body: HeartbeatRequest, shard: GroupShard) -> Steps[HeartbeatResponse]:
    yield from ()
    error = coordinator.heartbeat(shard, body.group_id, body.member_id, body.group_instance_id, body.generation_id)
    return HeartbeatResponse(error_code=error)


def _refused(error: KafkaError) -> HeartbeatResponse:
    is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
