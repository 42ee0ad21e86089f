"""SaslAuthenticate, API key 36, versions 0-2. See `sasl_handshake`."""

from __future__ import annotations

from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> Any:
    login = ctx.client.logging_in
    if login is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    return await login.authenticate(request)
