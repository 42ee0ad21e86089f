"""PLAIN (RFC 4616): a name and a password, which the listener's line of JAAS has, too."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from secrets import token_bytes

from ..principal import USER, Principal
from .conversation import InvalidCredentialsError, SaslError

_NOBODYS = token_bytes(32)
"""Compared with where there is no such user, which takes as long as with a user's password."""


class PlainConversation:
    """Args: `passwords` by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.principal: Principal | None = None
        self.expires_ms: int | None = None

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        """As `Conversation`; the client has one thing to say."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise InvalidCredentialsError("a PLAIN token must have three parts")
        authorization_id, name, password = (part.decode(errors="replace") for part in parts)
        if not name:
            raise SaslError("Authentication failed: username not specified")
        if not password:
            raise SaslError("Authentication failed: password not specified")
        expected = self._passwords.get(name)
        known = _NOBODYS if expected is None else expected.encode(errors="surrogatepass")
        is_equal = compare_digest(password.encode(), known)
        if expected is None or not is_equal:
            raise SaslError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != name:
            raise SaslError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.principal = Principal(USER, name)
        return b""
