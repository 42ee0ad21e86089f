"""How our own client logs in: PLAIN, SCRAM and OAUTHBEARER, as tokens that go to and fro."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Any, Protocol

from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest
from ...protocol.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, credential_of, mac, salted, xor
from .values import UnreachableError

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)

Tokens = Generator[bytes, bytes, None]
"""Yields what is to be sent, is sent what the broker answers; ends when nothing more is to be said."""

_FIRST = re.compile(r"r=(?P<nonce>[\x21-+\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?")


class LoginConnection(Protocol):
    """A new connection."""

    def ask(self, message: Any, version: int) -> Any:
        """The answer to a request."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client logs in with."""

    mechanism: str
    """One of MECHANISMS."""
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    """Of OAUTHBEARER: the signed JWT."""
    renew: Callable[[], str] | None = field(default=None, repr=False)
    """Gives a new one for each login, in the place of that."""
    is_token: bool = False
    """Whether username and password are id and HMAC of a delegation token (KIP-48)."""

    def tokens(self) -> Tokens:
        """What is to be said."""
        match self.mechanism:
            case "PLAIN":
                return _plain(self.username, self.password)
            case "OAUTHBEARER":
                return _bearer(self.token if self.renew is None else self.renew())
            case _:
                return _scram(self)


def log_in(client: LoginConnection, it: Credentials) -> int:
    """Log in on a new connection; returns how long the session lasts, in ms, 0 if it does not end.

    Raises:
        OSError: The broker does not let us in, an UnreachableError, or has gone.
    """
    try:
        offered = client.ask(SaslHandshakeRequest(mechanism=it.mechanism), 1)
    except ConnectionError as error:
        raise UnreachableError(f"{error} during the SASL handshake; check that the listener uses SASL") from None
    if offered.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise UnreachableError("the listener does not support SASL: its security.protocol is PLAINTEXT or SSL")
    if offered.error_code:
        raise UnreachableError(
            f"SASL mechanism {it.mechanism} is not enabled; enabled: {', '.join(offered.mechanisms)}"
        )
    tokens = it.tokens()
    token: bytes | None = next(tokens)
    lifetime_ms = 0
    while token is not None:
        answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 1)
        if answer.error_code:
            raise UnreachableError(answer.error_message or ErrorCode(answer.error_code).name)
        lifetime_ms = answer.session_lifetime_ms
        try:
            token = tokens.send(bytes(answer.auth_bytes))
        except StopIteration:
            token = None
    return lifetime_ms


def _plain(username: str, password: str) -> Tokens:
    yield f"\0{username}\0{password}".encode()


def _bearer(token: str) -> Tokens:
    answer = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if answer:  # an error, which the broker explains once it is confirmed (RFC 7628)
        yield b"\x01"


def _scram(it: Credentials) -> Tokens:
    mechanism, nonce = it.mechanism, token_urlsafe()
    name = it.username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}{',tokenauth=true' if it.is_token else ''}"
    said = (yield f"n,,{bare}".encode()).decode(errors="replace")
    first = _FIRST.fullmatch(said)
    if first is None or not first["nonce"].startswith(nonce):
        raise UnreachableError("invalid first SCRAM message from the broker")
    iterations = int(first["iterations"])
    # Fewer would give the password away to somebody who only says that he is the broker: he could guess at the proof.
    if not ITERATIONS_MIN <= iterations <= 100 * ITERATIONS_MAX:
        raise UnreachableError(f"the broker requests an invalid number of SCRAM iterations ({iterations})")
    try:
        salt = b64decode(first["salt"])
    except ValueError:
        raise UnreachableError("invalid first SCRAM message from the broker") from None
    password = salted(mechanism, it.password, salt, iterations)
    credential = credential_of(mechanism, password, b"", iterations)
    final = f"c=biws,r={first['nonce']}"
    text = f"{bare},{said},{final}".encode()
    proof = xor(mac(mechanism, password, b"Client Key"), mac(mechanism, credential.stored_key, text))
    answer = yield f"{final},p={b64encode(proof).decode()}".encode()
    expected = b"v=" + b64encode(mac(mechanism, credential.server_key, text))
    if not hmac.compare_digest(answer.split(b",")[0], expected):
        raise UnreachableError("invalid server signature: the broker could not prove that it knows the password")
