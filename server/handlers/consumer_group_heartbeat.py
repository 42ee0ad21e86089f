"""ConsumerGroupHeartbeat, API key 68, versions 0-1.

Behaviour
- A member of a consumer group joins (epoch 0), stays, or leaves (-1; a static member that will return, -2); the rules are
  in `groups.consumer.protocol`.
- A member must be allowed to describe every topic that it names; of the topics that its expression matches it gets those that
  it may describe.
- The response may be held while the group is quiet, or until others give up what a joining member will get (`holding`).
- Served while the feature `group.version` is 1 and `group.coordinator.rebalance.protocols` names "consumer"; else
  UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from functools import partial
from types import CoroutineType
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ..groups.classic.protocol import Caller
from ..groups.service import GroupService
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .coordinating import CoordinatorCall, check_topics
from .holding import held, held_join, held_later, is_joining
from .permissions import check_without_words, seeing


def handle(ctx: Context, request: Request) -> Any:
    body: ConsumerGroupHeartbeatRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        groups.check_consumer_protocol()
        check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    except KafkaError as error:
        return _refused(error)
    caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version, seeing(ctx))
    work = partial(groups.coordinator.consumer_heartbeat, request=body, caller=caller, now_ms=ctx.services.clock.now_ms)
    names, before = body.subscribed_topic_names, None
    if names and ctx.services.authorizer is not None:
        before = partial(check_topics, ctx, names)
    answer = CoordinatorCall(ctx, groups, body.group_id, work, _refused, before).run()
    if groups.held is None:
        return answer
    if isinstance(answer, CoroutineType):
        return held_later(answer, partial(_held, ctx, request, groups))
    return _held(ctx, request, groups, answer)


def _held(ctx: Context, request: Request, groups: GroupService, answer: ConsumerGroupHeartbeatResponse) -> Any:
    """Return the answer as it is, or one that is held: of a member that joins and waits for others, or of a quiet group."""
    body: ConsumerGroupHeartbeatRequest = request.body
    if (body.member_epoch == 0 or is_joining(ctx, request)) and not answer.error_code:
        has_part = answer.assignment is not None and bool(answer.assignment.topic_partitions)
        return held_join(ctx, request, answer, groups, has_part=has_part)
    has_no_news = answer.member_epoch == body.member_epoch and answer.assignment is None
    return held(ctx, request, answer, groups, has_news=not has_no_news, claims=("topic_partitions",))


def _refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    # Apache Kafka sends no message with UNSUPPORTED_VERSION.
    message = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=message)
