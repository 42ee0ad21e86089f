"""Before a client of a TLS listener is read: both come to terms, and its certificate, if it has shown one, says who it is.

Who fails is told so by TLS, waits `connection.failed.authentication.delay.ms`, counting as a connection meanwhile, and is cut
off with one line in the log.
"""

from __future__ import annotations

import trio

from ...security.principal import Principal, UnprovenError
from ...security.tls.contexts import TlsContext
from ..desk import HangUpError, RequestingClient
from ..tls_transport import TlsTransport
from .allowance import BEFORE_S, Allowance, let_wait
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
    """Who the client is.

    Args:
        logs_in: It is to do so next, and is counted then.

    Raises:
        HangUpError: They do not come to terms, or not in time.
        PeerGoneError: The client has gone.
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
    await let_wait(client, tls.settings.failure_delay_ms)
    raise HangUpError(reason)
