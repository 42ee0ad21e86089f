"""UnregisterBroker, API key 64, version 0 (KIP-631).

Behaviour
- An unknown node id is BROKER_ID_NOT_REGISTERED, as in Kafka.
- A stopped node is no longer listed among fenced brokers, until it starts again.

Differs from Apache Kafka
- A live node is INVALID_REQUEST. Apache Kafka unregisters it as well, and it serves no clients until its next start.
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
