"""ListTransactions, API key 66, versions 0-2.

Behaviour
- Lists the transactional ids that this node coordinates; clients ask every node.
- Filters by state (case-sensitive; unknown names are listed in the response), producer id, time since the
  transaction began (version 1 on), and a regular expression of RE2 that the whole id has to match (version 2 on).
"""

from __future__ import annotations

from operator import attrgetter

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.listing import TransactionFilter, is_unknown
from .permissions import permitted


async def handle(ctx: Context, request: Request) -> ListTransactionsResponse:
    body: ListTransactionsRequest = request.body
    wanted = TransactionFilter(
        states=body.state_filters,
        producer_ids=body.producer_id_filters,
        duration_ms=body.duration_filter,
        pattern=body.transactional_id_pattern,
    )
    service = ctx.services.coordinators.transactions
    try:
        found = await run_cooperatively(
            service.coordinator.list_transactions(
                service.partitions_led_by(ctx.node), wanted, ctx.services.clock.now_ms()
            )
        )
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    await service.settle_all(ctx.node)
    time_slice = TimeSlice()
    found = await permitted(
        ctx, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, found, attrgetter("transactional_id"), time_slice
    )
    unknown = await time_slice.distinct(body.state_filters)
    states = await time_slice.map(
        lambda one: TransactionState(
            transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state.title
        ),
        found,
    )
    return ListTransactionsResponse(
        unknown_state_filters=tuple(
            await time_slice.map(lambda name: name, (name for name in unknown if is_unknown(name)))
        ),
        transaction_states=tuple(states),
    )
