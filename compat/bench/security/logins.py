"""The rate at which clients can connect to a listener and log in, and the broker's CPU for each: one client, bare sockets.

The client does little work of its own. Frames are made once, and so is PBKDF2's key of a password, which costs a real client
milliseconds. Broker and client take turns, so a rate is that of one connection after the other.
"""

from __future__ import annotations

import ssl
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache

from ottla.protocol.scram import credential_of, mac, salted, xor

from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection

LogIn = Callable[[RawConnection], None]
"""Logs in on a new connection."""

TIMEOUT_S = 10.0
HANDSHAKE_KEY, API_VERSIONS_KEY, AUTHENTICATE_KEY = 17, 18, 36


class Comer:
    """A client that connects to one listener of a broker, again and again.

    Args:
        tls: None for a plain listener.
        resumes: Whether a connection resumes the previous one's TLS session, if the broker offers that.
        log_in: Called on each connection.
    """

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        resumes: bool = False,
        log_in: LogIn | None = None,
    ) -> None:
        self.port, self.tls, self.resumes, self.log_in = port, tls, resumes, log_in
        self.reused = 0
        """The number of resumed connections."""
        self._session: ssl.SSLSession | None = None

    def come(self) -> None:
        """Connect, send ApiVersions, log in, and disconnect."""
        with RawConnection("127.0.0.1", self.port, TIMEOUT_S) as connection:
            if self.tls is not None:
                secured = self.tls.wrap_socket(connection.socket, server_hostname="localhost", session=self._session)
                connection.socket = secured
                self.reused += bool(secured.session_reused)
            connection.request(API_VERSIONS_KEY, 0, b"")
            if self.log_in is not None:
                self.log_in(connection)
            if self.resumes:
                # A TLS 1.3 ticket arrived before the first answer.
                assert isinstance(connection.socket, ssl.SSLSocket)
                self._session = connection.socket.session


def measured(broker: BrokerProcess, comer: Comer, count: int) -> tuple[float, float]:
    """Return connections a second, and the broker's CPU for one in ms."""
    cpu_s, started_s = broker.cpu_seconds(), time.perf_counter()
    for _ in range(count):
        comer.come()
    wall_s = time.perf_counter() - started_s
    return count / wall_s, (broker.cpu_seconds() - cpu_s) * 1e3 / count


def plain(user: str, password: str) -> LogIn:
    """Log in with a name and a password."""
    return _with_one_token("PLAIN", f"\0{user}\0{password}".encode())


def bearer(token: str) -> LogIn:
    """Log in with a token of OAUTHBEARER."""
    return _with_one_token("OAUTHBEARER", f"n,,\x01auth=Bearer {token}\x01\x01".encode())


def _with_one_token(mechanism: str, token: bytes) -> LogIn:
    def log_in(connection: RawConnection) -> None:
        _choose(connection, mechanism)
        if _answer(connection, token):
            raise RuntimeError(f"{mechanism}: the broker wants more")

    return log_in


def scram(mechanism: str, user: str, password: str) -> LogIn:
    """Return a SCRAM login that also checks that the broker knows the password."""

    def log_in(connection: RawConnection) -> None:
        _choose(connection, mechanism)
        bare = f"n={user},r=compat"
        said = _answer(connection, f"n,,{bare}".encode()).decode()
        nonce, salt, iterations = (part[2:] for part in said.split(","))
        key = _salted_once(mechanism, password, salt, int(iterations))
        known = credential_of(mechanism, key, b"", int(iterations))
        final = f"c=biws,r={nonce}"
        text = f"{bare},{said},{final}".encode()
        proof = xor(mac(mechanism, key, b"Client Key"), mac(mechanism, known.stored_key, text))
        answer = _answer(connection, f"{final},p={b64encode(proof).decode()}".encode())
        if answer != b"v=" + b64encode(mac(mechanism, known.server_key, text)):
            raise RuntimeError(f"{mechanism}: the broker does not know the password")

    return log_in


@cache
def _salted_once(mechanism: str, password: str, salt: str, iterations: int) -> bytes:
    return salted(mechanism, password, b64decode(salt), iterations)


def _choose(connection: RawConnection, mechanism: str) -> None:
    name = mechanism.encode()
    (code,) = struct.unpack_from(">h", connection.request(HANDSHAKE_KEY, 1, struct.pack(">h", len(name)) + name))
    if code:
        raise RuntimeError(f"{mechanism} was refused with error {code}")


def _answer(connection: RawConnection, token: bytes) -> bytes:
    """Send a token, and return the broker's answer to it."""
    body = connection.request(AUTHENTICATE_KEY, 1, struct.pack(">i", len(token)) + token)
    code, size = struct.unpack_from(">hh", body)
    if code:
        raise RuntimeError(f"a login was refused with error {code}: {body[4 : 4 + size].decode()}")
    at = 4 + max(size, 0)
    (size,) = struct.unpack_from(">i", body, at)
    return body[at + 4 : at + 4 + size]
