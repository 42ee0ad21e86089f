"""EndTxn, API key 26, versions 0-5.

Behaviour
- Answered once the decision is in the log (on disk, where `flush.messages` asks for it), which is final; the markers are
  written in the same turn (or once the decision is on disk) as far as partitions take them, those of more than 50
  partitions in the turns that follow.
- Version 5 is transaction version 2 (KIP-890): the producer goes on under the epoch, and perhaps the id, of the answer.
- PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 2.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..coordination.records import Producer
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.metadata import FIRST_VERSION_WITH_EPOCH_BUMP, code_for
from .permissions import check

_FIRST_VERSION_WITH_FENCED = 2
_FIRST_VERSION_WITH_EPOCH = 5


async def handle(ctx: Context, request: Request) -> EndTxnResponse:
    body: EndTxnRequest = request.body
    services = ctx.services
    client_version = FIRST_VERSION_WITH_EPOCH_BUMP if request.version >= _FIRST_VERSION_WITH_EPOCH else 0
    try:
        check(ctx, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
        transactions = services.coordinators.transactions
        shard = await transactions.route(ctx.node, body.transactional_id)
        await services.producer_ids.have_some()
        producer = transactions.coordinator.end_transaction(
            shard,
            body.transactional_id,
            Producer(body.producer_id, body.producer_epoch),
            body.committed,
            client_version,
            services.clock.now_ms(),
        )
        await transactions.settle(shard)
    except KafkaError as error:
        return EndTxnResponse(
            error_code=code_for(error, request.version, knows_fenced_since=_FIRST_VERSION_WITH_FENCED)
        )
    return EndTxnResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
