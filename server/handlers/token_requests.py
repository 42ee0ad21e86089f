"""Common parts of the requests about delegation tokens: permissions, availability, and changes of the expiry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...protocol.errors import ErrorCode, KafkaError
from ..cluster.token_changes import TokenChanges
from ..security.principal import ANONYMOUS, Principal
from ..services.context import Context

FIRST_METADATA_VERSION = 14
"""Level of 3.6-IV2, from which on Apache Kafka's controllers know tokens."""


def check_channel(ctx: Context) -> None:
    """Raise KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED unless the client is authenticated, and not by a token."""
    principal, protocol = ctx.client.principal, ctx.listener.security_protocol
    if principal.is_by_token or protocol == "PLAINTEXT" or (protocol == "SSL" and principal == ANONYMOUS):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def changes_of(ctx: Context) -> TokenChanges:
    """Return the changes of tokens.

    Raises:
        KafkaError: DELEGATION_TOKEN_AUTH_DISABLED (no delegation.token.secret.key), UNSUPPORTED_VERSION (the finalized
            metadata.version has no tokens).
    """
    changes = ctx.services.token_changes
    if changes is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if 0 < ctx.services.config.feature_level("metadata.version") < FIRST_METADATA_VERSION:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return changes


async def new_expiry(
    ctx: Context,
    change: Callable[[TokenChanges, bytes, Principal, int, int], Awaitable[int]],
    hmac: bytes,
    period_ms: int,
) -> tuple[ErrorCode, int]:
    """Change the expiry of the token with this HMAC; return an error code and the new expiry."""
    at_ms = -1
    try:
        check_channel(ctx)
        at_ms = 0  # As Apache Kafka returns it once its controllers refuse.
        changes, now_ms = changes_of(ctx), ctx.services.clock.now_ms()
        return ErrorCode.NONE, await change(changes, hmac, ctx.client.principal, period_ms, now_ms)
    except KafkaError as error:
        return error.code, at_ms
