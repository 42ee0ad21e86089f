"""InitProducerId, API key 22, versions 0-6.

Behaviour
- Without a transactional id: a new producer id with epoch 0, never given before, also after a crash
  (ids are taken in blocks that the catalog records first). From version 3 a producer may name its
  present id and epoch, but not one without the other (KIP-360); it gets a new id then too, as in Apache Kafka.

Differs from Apache Kafka
- A transactional id is refused with UNSUPPORTED_VERSION: transactions are not served yet.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..connection import Context


async def handle(ctx: Context, request: Request) -> InitProducerIdResponse:
    body: InitProducerIdRequest = request.body
    if body.transactional_id is not None:
        code = ErrorCode.UNSUPPORTED_VERSION if body.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    try:
        producer_id = await ctx.broker.new_producer_id()
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0)
