"""ExpireDelegationToken, API key 40, versions 1-2.

Behaviour
- A token expires after the requested period, never after its lifetime; with a negative period it is deleted at once.
- For its owner and its renewers; not on PLAINTEXT channels, nor by a client that logged in with a token.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..cluster.token_changes import TokenChanges
from ..services.context import Context
from .token_requests import new_expiry


async def handle(ctx: Context, request: Request) -> ExpireDelegationTokenResponse:
    body: ExpireDelegationTokenRequest = request.body
    code, at_ms = await new_expiry(ctx, TokenChanges.expire, body.hmac, body.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)
