"""ConsumerGroupDescribe, API key 69, versions 0-1.

Behaviour
- A group that is asked for twice is answered once.
- State, epochs, members and assignments of consumer groups; a group of another kind is GROUP_ID_NOT_FOUND.
- UNSUPPORTED_VERSION as in ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ..runtime.turns import Turn, in_turns
from ..services.context import Context
from .authorized_operations import group_operations


async def handle(ctx: Context, request: Request) -> ConsumerGroupDescribeResponse:
    body: ConsumerGroupDescribeRequest = request.body
    turn = Turn()
    groups = []
    for group_id in await turn.once(body.group_ids):
        if turn.is_over():
            await turn.next()
        groups.append(await _describe(ctx, group_id))
    if body.include_authorized_operations:
        groups = await turn.map(
            lambda one: (
                one if one.error_code else replace(one, authorized_operations=group_operations(ctx, one.group_id))
            ),
            groups,
        )
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(ctx: Context, group_id: str) -> DescribedGroup:
    groups = ctx.services.coordinators.groups
    try:
        groups.check_consumer_protocol()
        groups.check_coordinates(ctx.node, group_id)
        described = await in_turns(groups.coordinator.describe_consumer_group(group_id))
        await groups.settle(group_id)
        return described
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
