"""Logins with a password: PLAIN (RFC 4616), which sends it, and SCRAM (RFC 5802, RFC 7677), which proves knowledge of it.

In PLAIN the client sends one message: a name and a password, which the listener's JAAS entry must have. In SCRAM the
broker also proves to the client that it knows the password:

    client  n,,n=USER,r=NONCE                       (with ,tokenauth=true: USER is the ID of a delegation token, KIP-48)
    broker  r=NONCE MORE,s=SALT,i=ITERATIONS
    client  c=biws,r=NONCE MORE,p=PROOF
    broker  v=SIGNATURE

A user that does not exist also gets a salt, always the same, and fails with the proof, as with a wrong password.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from hmac import compare_digest
from secrets import token_bytes, token_urlsafe
from typing import Protocol

import trio

from ....protocol.scram import ITERATIONS_MIN, ScramCredential, credential_of, digest, mac, salted, xor
from ..principal import USER, Principal, UnprovenError
from .scram_users import ScramUsers, salt_from

_NOBODYS = token_bytes(32)
"""Compared with the password of an unknown user, so that the response takes as long as for a known one."""


class PlainConversation:
    """Login by PLAIN. Args: `passwords` by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.principal: Principal | None = None
        self.expires_ms: int | None = None

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        """Implement `Conversation`; the client sends one message."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise UnprovenError("a PLAIN token must have three parts")
        authorization_id, name, password = (part.decode(errors="replace") for part in parts)
        if not name:
            raise UnprovenError("Authentication failed: username not specified", is_told=True)
        if not password:
            raise UnprovenError("Authentication failed: password not specified", is_told=True)
        expected = self._passwords.get(name)
        known = _NOBODYS if expected is None else expected.encode(errors="surrogatepass")
        is_equal = compare_digest(password.encode(), known)
        if expected is None or not is_equal:
            raise UnprovenError("Authentication failed: Invalid username or password", is_told=True)
        if authorization_id and authorization_id != name:
            raise UnprovenError(
                "Authentication failed: Client requested an authorization id that is different from username",
                is_told=True,
            )
        self.principal = Principal(USER, name)
        return b""


_NAME = r"(?:[\x01-+\x2d-<>-\x7f]|=(?:2C|3D))+"
_VALUE = r"[\x01-+\x2d-\x7f]+"
_PRINTABLE = r"[\x21-+\x2d-\x7e]+"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<bare>c=[A-Za-z0-9+/=]*,r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9+/]+={{0,2}})"
)
_TOKEN_CHARS = 8_192
"""Maximum characters of one message; names and nonces are far shorter."""


class ScramTokenLogin(Protocol):
    """Delegation token, as SCRAM sees it."""

    @property
    def principal(self) -> Principal:
        """The principal of a client that logs in with the token."""

    @property
    def password(self) -> str: ...

    @property
    def expires_ms(self) -> int:
        """When the token expires, in wall time."""


class ScramTokens(Protocol):
    """Present delegation tokens: `security.tokens`."""

    def login(self, token_id: str, now_ms: int) -> ScramTokenLogin | None:
        """Return the token with this ID; None: unknown or expired."""


class ScramConversation:
    """Login of one client by SCRAM.

    Args:
        tokens: None if delegation tokens are not enabled.
        secret: The cluster's secret, from which the salts of unknown users are made.
        threads: Limit for all logins by token: deriving their keys takes some milliseconds each.
        nonce: Makes the broker's part of the nonce; a new one with each call.
    """

    def __init__(
        self,
        mechanism: str,
        users: ScramUsers,
        tokens: ScramTokens | None,
        secret: bytes,
        threads: trio.CapacityLimiter,
        nonce: Callable[[], str] = token_urlsafe,
    ) -> None:
        self.principal: Principal | None = None
        self.expires_ms: int | None = None
        self._mechanism = mechanism
        self._users = users
        self._tokens = tokens
        self._secret = secret
        self._threads = threads
        self._make_nonce = nonce
        self._who: Principal | None = None
        """The principal that the client claims to be; None if the user does not exist."""
        self._until_ms: int | None = None
        self._nonce = ""
        self._said = ""
        """The messages of both sides so far."""
        self._credential: ScramCredential | None = None

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        try:
            text = token[: _TOKEN_CHARS + 1].decode()
        except UnicodeDecodeError:
            raise UnprovenError("the message is not valid UTF-8") from None
        if len(text) > _TOKEN_CHARS:
            raise UnprovenError("the message is too long")
        answer = await self._begin(text, now_ms) if self._credential is None else self._end(text, self._credential)
        return answer.encode()

    async def _begin(self, text: str, now_ms: int) -> str:
        first = _FIRST.fullmatch(text)
        if first is None:
            raise UnprovenError("the client's first message is malformed")
        name = _unescaped(first["name"])
        if (authorization := first["authorization"]) and _unescaped(authorization) != name:
            raise UnprovenError(
                "Authentication failed: Client requested an authorization id that is different from username",
                is_told=True,
            )
        if "tokenauth=true" in first["extensions"].lower().split(","):
            credential = await self._token(name, now_ms)
        else:
            credential = self._user(name)
        self._credential = credential
        self._nonce = first["nonce"] + self._make_nonce()
        answer = f"r={self._nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        self._said = f"{first['bare']},{answer}"
        return answer

    def _user(self, name: str) -> ScramCredential:
        credential = self._users.credentials_of(name).get(self._mechanism)
        if credential is None:
            return credential_of(self._mechanism, self._made_of(name), self._salt_of(name), ITERATIONS_MIN)
        self._who = Principal(USER, name)
        return credential

    async def _token(self, token_id: str, now_ms: int) -> ScramCredential:
        login = None if self._tokens is None else self._tokens.login(token_id, now_ms)
        password, salt = self._made_of(token_id).hex(), self._salt_of(token_id)
        if login is not None:
            self._who, self._until_ms, password = login.principal, login.expires_ms, login.password
        key = await trio.to_thread.run_sync(
            salted, self._mechanism, password, salt, ITERATIONS_MIN, limiter=self._threads, abandon_on_cancel=True
        )
        return credential_of(self._mechanism, key, salt, ITERATIONS_MIN)

    def _made_of(self, name: str) -> bytes:
        return mac(self._mechanism, self._secret, name.encode())

    def _salt_of(self, name: str) -> bytes:
        return salt_from(self._made_of(name))

    def _end(self, text: str, credential: ScramCredential) -> str:
        final = _FINAL.fullmatch(text)
        if final is None:
            raise UnprovenError("the client's final message is malformed")
        if final["nonce"] != self._nonce:
            raise UnprovenError("invalid client nonce in the final client message")
        said = f"{self._said},{final['bare']}".encode()
        if not _is_proved(self._mechanism, final["proof"], said, credential) or self._who is None:
            raise UnprovenError("invalid client credentials")
        self.principal, self.expires_ms = self._who, self._until_ms
        return f"v={b64encode(mac(self._mechanism, credential.server_key, said)).decode()}"


def _is_proved(mechanism: str, proof: str, said: bytes, credential: ScramCredential) -> bool:
    try:
        client_key = xor(b64decode(proof, validate=True), mac(mechanism, credential.stored_key, said))
    except ValueError:  # malformed, or of another length
        return False
    return hmac.compare_digest(digest(mechanism, client_key), credential.stored_key)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
