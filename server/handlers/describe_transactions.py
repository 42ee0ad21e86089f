"""DescribeTransactions, API key 65, version 0.

Behaviour
- One row per id, even if it is named several times, each with its own error: INVALID_REQUEST (empty), NOT_COORDINATOR,
  COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND.
- Topics that the client may not describe are left out.
- The partitions of a decided transaction are those without a marker so far.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check, permitted


async def handle(ctx: Context, request: Request) -> DescribeTransactionsResponse:
    body: DescribeTransactionsRequest = request.body
    time_slice = TimeSlice()
    states = []
    async for transactional_id in time_slice.each(await time_slice.distinct(body.transactional_ids)):
        states.append(await _describe(ctx, transactional_id))
    return DescribeTransactionsResponse(transaction_states=tuple(states))


async def _describe(ctx: Context, transactional_id: str) -> TransactionState:
    service = ctx.services.coordinators.transactions
    try:
        check(ctx, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        shard = service.shard_led(ctx.node, transactional_id)
        described = service.coordinator.describe(shard, transactional_id)
        await service.settle(shard)
        if ctx.services.authorizer is None:
            return described
        topics = await permitted(
            ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, described.topics, attrgetter("topic"), TimeSlice()
        )
        return replace(described, topics=tuple(topics))
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
