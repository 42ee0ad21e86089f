"""Before a client of a TLS listener is read: both come to terms, and its certificate, if it has shown one, says who it is.

That may take ten seconds and HANDSHAKE_BYTES_MAX bytes. Who fails is told so by TLS, waits
`connection.failed.authentication.delay.ms`, counting as a connection meanwhile, and is cut off with one line in the log.
"""

from __future__ import annotations

import trio

from ..security.principal import Principal
from ..security.tls.contexts import TlsContext
from ..security.tls.mapping_rules import NoRuleError
from .desk import Client, HangUpError
from .tls_transport import HandshakeError, TlsTransport

HANDSHAKE_S = 10.0


async def shake_hands(transport: TlsTransport, tls: TlsContext, client: Client) -> Principal:
    """Who the client is.

    Raises:
        HangUpError: They do not come to terms, or not in time.
        PeerGoneError: The client has gone.
    """
    try:
        with trio.move_on_after(HANDSHAKE_S) as patience:
            await transport.shake_hands()
            return tls.principal(transport.peer_certificate)
    except HandshakeError as error:
        reason = f"TLS handshake failed: {error}"
    except NoRuleError as error:
        reason = str(error)
    if patience.cancelled_caught:
        raise HangUpError(f"the TLS handshake was not over after {HANDSHAKE_S:g} s")
    await client.hold(trio.Event(), tls.settings.failure_delay_ms / 1000, is_client_needed=False)
    raise HangUpError(reason)
