"""InitProducerId, API key 22, versions 0-6.

Behaviour
- Without a transactional id: a new producer id with epoch 0, never used before, even after a crash
  (ids are taken in blocks that the catalog records first). From version 3 a producer may name its
  present id and epoch, but not one without the other (KIP-360); it gets a new id then too, as in Apache Kafka.
- With one: the transaction coordinator answers. An open transaction of the previous producer with this transactional id is
  aborted first; the client retries after CONCURRENT_TRANSACTIONS.
- From version 6 on, which must be enabled, a producer may use two-phase commit (KIP-939): its transactions never time out.
  Apache Kafka implements no more of that KIP, and refuses to keep a prepared transaction.
- PRODUCER_FENCED is INVALID_PRODUCER_EPOCH before version 4.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..coordination.records import Producer
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from ..transactions.metadata import code_for
from .permissions import check, refusal

_FIRST_VERSION_WITH_FENCED = 4
_NOBODY = Producer(-1, -1)


async def handle(ctx: Context, request: Request) -> InitProducerIdResponse:
    body: InitProducerIdRequest = request.body
    try:
        producer = await _init(ctx, body)
    except KafkaError as error:
        code = code_for(error, request.version, knows_fenced_since=_FIRST_VERSION_WITH_FENCED)
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


async def _init(ctx: Context, body: InitProducerIdRequest) -> Producer:
    if body.transactional_id is not None:
        check(ctx, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
        if body.enable2_pc:
            check(ctx, AclOperation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    elif not ctx.may(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, is_attempt=False) and not await ctx.may_any(
        AclOperation.WRITE, ResourceType.TOPIC
    ):
        raise refusal(ResourceType.CLUSTER)
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"producer ID {body.producer_id} and epoch {body.producer_epoch} must both be set or both be -1",
        )
    services = ctx.services
    if body.transactional_id is None:
        return Producer(await services.producer_ids.take(), 0)
    transactions = services.coordinators.transactions
    shard = await transactions.route(ctx.node, body.transactional_id)
    await services.producer_ids.have_some()
    present = Producer(body.producer_id, body.producer_epoch)
    given = transactions.coordinator.init_producer_id(
        shard,
        body.transactional_id,
        body.transaction_timeout_ms,
        None if present == _NOBODY else present,
        services.clock.now_ms(),
        two_phase=body.enable2_pc,
        keep_prepared=body.keep_prepared_txn,
    )
    await transactions.settle(shard)
    return given
