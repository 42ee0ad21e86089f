"""How a client's connections are secured before the first request."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from .sasl import Credentials


@dataclass(frozen=True, slots=True)
class Security:
    """What all connections to one cluster have in common."""

    tls: ssl.SSLContext | None = None
    """None: they are plain."""
    login: Credentials | None = None
    """None: nobody logs in."""

    def secured(self, sock: socket.socket, host: str) -> socket.socket:
        """The connection, once both sides have come to terms; `host` is who it should be with.

        Raises:
            OSError: They have not, in one line; the socket is closed.
        """
        if self.tls is None:
            return sock
        import ssl

        try:
            return self.tls.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            sock.close()
            raise ConnectionError(f"TLS: the broker's certificate was rejected: {error.verify_message}") from error
        except ssl.SSLError as error:
            sock.close()
            reason = (error.reason or str(error)).replace("_", " ").lower()
            raise ConnectionError(f"TLS: {reason}; check that the listener uses TLS") from error
        except OSError:
            sock.close()
            raise


PLAIN = Security()
