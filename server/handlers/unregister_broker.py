"""UnregisterBroker, API key 64, version 0 (KIP-631).

Behaviour
- An id that no node has is BROKER_ID_NOT_REGISTERED, as in Kafka.
- A node that is stopped is listed no more where fenced brokers are asked for, until it starts again.

Differs from Apache Kafka
- A node that lives is INVALID_REQUEST. Apache Kafka forgets it, too, and it serves nobody until its next start.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> UnregisterBrokerResponse:
    body: UnregisterBrokerRequest = request.body
    node = ctx.services.cluster.node(body.broker_id)
    if node is None or not node.is_registered:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {body.broker_id} is not currently registered",
        )
    if node.is_alive:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Broker ID {body.broker_id} is running; stop the node before unregistering it",
        )
    node.is_registered = False
    return UnregisterBrokerResponse()
