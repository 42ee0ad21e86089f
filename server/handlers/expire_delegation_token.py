"""ExpireDelegationToken, API key 40, versions 1-2.

Behaviour
- A token expires so many milliseconds from now, never after its lifetime; with a negative number it is gone at once.
- Its owner and its renewers may; not on plain channels, nor by who logged in with a token.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..services.context import Context
from .token_requests import changes_of, check_channel


async def handle(ctx: Context, request: Request) -> ExpireDelegationTokenResponse:
    body: ExpireDelegationTokenRequest = request.body
    at_ms = -1
    try:
        check_channel(ctx)
        at_ms = 0  # As Apache Kafka's controllers, behind its brokers, leave it.
        now_ms = ctx.services.clock.now_ms()
        at_ms = await changes_of(ctx).expire(body.hmac, ctx.client.principal, body.expiry_time_period_ms, now_ms)
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=at_ms)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=at_ms)
