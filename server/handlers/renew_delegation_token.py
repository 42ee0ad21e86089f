"""RenewDelegationToken, API key 39, versions 1-2.

Behaviour
- A token expires `delegation.token.expiry.time.ms` from now, or earlier if the request says so, and never after its lifetime.
- Its owner and its renewers may; not on plain channels, nor by who logged in with a token.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..services.context import Context
from .token_requests import changes_of, check_channel


async def handle(ctx: Context, request: Request) -> RenewDelegationTokenResponse:
    body: RenewDelegationTokenRequest = request.body
    at_ms = -1
    try:
        check_channel(ctx)
        at_ms = 0  # As Apache Kafka's controllers, behind its brokers, leave it.
        now_ms = ctx.services.clock.now_ms()
        at_ms = await changes_of(ctx).renew(body.hmac, ctx.client.principal, body.renew_period_ms, now_ms)
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=at_ms)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=at_ms)
