"""ConsumerGroupHeartbeat, API key 68, versions 0-1.

Behaviour
- A member of a consumer group joins (epoch 0), stays, or leaves (-1; a static one that will be back, -2); the rules are
  in `groups.consumer.protocol`.
- A member must be allowed to describe every topic that it names; of those that its expression matches it gets the ones that
  it may.
- Served while the feature `group.version` is 1 and `group.coordinator.rebalance.protocols` names "consumer"; else
  UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ..groups.classic.protocol import Caller
from ..runtime.turns import in_turns
from ..security.acls.kinds import Operation, ResourceType
from ..services.context import Context
from .permissions import check_without_words, seeing


async def handle(ctx: Context, request: Request) -> ConsumerGroupHeartbeatResponse:
    body: ConsumerGroupHeartbeatRequest = request.body
    caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version, seeing(ctx))
    groups = ctx.services.coordinators.groups
    try:
        groups.check_consumer_protocol()
        check_without_words(ctx, Operation.READ, ResourceType.GROUP, body.group_id)
        for at, name in enumerate(body.subscribed_topic_names or ()):
            if at and ctx.turn.is_over():
                await ctx.turn.next()
            check_without_words(ctx, Operation.DESCRIBE, ResourceType.TOPIC, name)
        coordinator = await groups.route(ctx.node, body.group_id)
        prepared = await in_turns(coordinator.prepare_consumer(body, caller), ctx.turn)
        upgrade = None if body.member_epoch else await in_turns(coordinator.prepare_upgrade(body, caller))
        answer = coordinator.consumer_heartbeat(body, caller, ctx.services.clock.now_ms(), upgrade, prepared)
        await groups.settle(body.group_id)
        return answer
    except KafkaError as error:
        # Apache Kafka says nothing beside UNSUPPORTED_VERSION.
        message = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=message)
