"""SaslHandshake, API key 17, versions 0-1.

`network/authentication` decides whether a client may log in before a handler is called. Any other handshake is an error: on a
listener without SASL, in a session that does not end, or a second time within a second.
"""

from __future__ import annotations

from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_handshake import SaslHandshakeResponse
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> Any:
    login = ctx.client.logging_in
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return login.shake_hands(request)
