"""A TLS client that completes the handshake up to some point, and then damages its data."""

import random
import socket
import ssl
from pathlib import Path

from .damage import damaged

PATIENCE_S = 0.01
"""The time to wait for an answer that may rightly be missing."""
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
FLIGHTS = 4
"""The hello, the end of the handshake, and requests."""
# ApiVersions, version 0, twice
REQUESTS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff" * 2


class Attacker:
    """A client whose every choice comes from `rng`, except TLS's own random numbers."""

    def __init__(self, rng: random.Random, address: tuple[str, int], ca: Path, client: Path) -> None:
        self._rng = rng
        self._address = address
        self._contexts = [_context(version, ca, client) for version in VERSIONS]

    def attack(self) -> str:
        """Open one connection and return its outcome: `refused`, `closed`, `answered`, or `left waiting`."""
        rng = self._rng
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = rng.choice(self._contexts).wrap_bio(incoming, outgoing, server_hostname="localhost")
        damaged_flight = rng.randrange(FLIGHTS)
        with socket.create_connection(self._address, timeout=2) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_secured = False
            try:
                for flight in range(20):
                    try:
                        if is_secured:
                            tls.write(REQUESTS)
                        else:
                            tls.do_handshake()
                            is_secured = True
                    except ssl.SSLWantReadError:
                        pass
                    if said := outgoing.read():
                        is_damaged = flight >= damaged_flight
                        sock.sendall(damaged(rng, said) if is_damaged else said)
                        if is_damaged:
                            sock.settimeout(PATIENCE_S)
                    if is_secured and (flight < damaged_flight or not said):
                        continue  # it is the client's turn again
                    data = sock.recv(1 << 16)
                    if not data:
                        return "closed"
                    incoming.write(data)
                    if is_secured:
                        tls.read(1 << 16)
                        return "answered"
            except TimeoutError:
                return "left waiting"
            except ssl.SSLWantReadError:
                return "answered"
            except ssl.SSLError:
                return "refused"
            except OSError:
                return "closed"
        return "left waiting"


def _context(version: ssl.TLSVersion, ca: Path, client: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(client)
    context.minimum_version = context.maximum_version = version
    return context
