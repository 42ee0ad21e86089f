"""RenewDelegationToken, API key 39, versions 1-2.

Behaviour
- A token expires `delegation.token.expiry.time.ms` from now, or earlier if the request says so, and never after its lifetime.
- For its owner and its renewers; not on PLAINTEXT channels, nor by a client that logged in with a token.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..cluster.token_changes import TokenChanges
from ..services.context import Context
from .token_requests import new_expiry


async def handle(ctx: Context, request: Request) -> RenewDelegationTokenResponse:
    body: RenewDelegationTokenRequest = request.body
    code, at_ms = await new_expiry(ctx, TokenChanges.renew, body.hmac, body.renew_period_ms)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=at_ms)
