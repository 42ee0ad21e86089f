"""TLS handshake, before anything else is read; the client's certificate, if it has shown one, gives its principal.

A client whose handshake fails gets a TLS alert and waits `connection.failed.authentication.delay.ms`, during which it counts as
a connection. Then it is disconnected, with one line in the log.
"""

from __future__ import annotations

import trio

from ...security.principal import Principal, UnprovenError
from ...security.tls.contexts import TlsContext
from ..dispatcher import HangUpError, RequestingClient
from ..tls_transport import TlsTransport
from .allowance import BEFORE_S, Allowance, delay_answer
from .counts import Counts


async def shake_hands(
    transport: TlsTransport,
    tls: TlsContext,
    client: RequestingClient,
    allowance: Allowance,
    counts: Counts,
    *,
    logs_in: bool,
) -> Principal:
    """Do the handshake, and return the client's principal.

    Args:
        logs_in: Whether a SASL login follows; then that is counted instead.

    Raises:
        HangUpError: The handshake failed, or took too long.
        PeerGoneError: The client has disconnected.
    """
    try:
        with trio.CancelScope(deadline=allowance.until_s) as patience:
            allowance.spend(await transport.shake_hands())
            principal = tls.principal(transport.peer_certificate)
            if not logs_in:
                counts.succeed()
            return principal
    except (HangUpError, UnprovenError) as error:
        reason = str(error)
    if patience.cancelled_caught:
        raise HangUpError(f"TLS handshake timed out after {BEFORE_S:g} s")
    counts.fail()
    await delay_answer(client, tls.settings.failure_delay_ms)
    raise HangUpError(reason)
