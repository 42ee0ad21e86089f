"""OAUTHBEARER (RFC 7628, KIP-255): a token, of whoever vouches for the client.

client  n,,^Aauth=Bearer TOKEN^A^A
broker  nothing, or why not in JSON, which the client confirms with ^A
"""

from __future__ import annotations

import logging
import re

from ...config.sasl.oauth import OauthConfig
from ...runtime.floods import Floods
from ..principal import USER, Principal
from .bearer_tokens import BearerTokenError, checked
from .conversation import InvalidCredentialsError, SaslError
from .jwks import Jwks

_REFUSALS = Floods(logging.getLogger("ottla.sasl"))

_NAME = r"(?:[\x01-+\x2d-<>-\x7f]|=(?:2C|3D))+"
_FIRST = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")
_INVALID = '{"status":"invalid_token"}'
_SCOPES_MISSING = '{"status":"insufficient_scope", "scope":"%s"}'


class OauthConversation:
    """One client logs in.

    Args:
        jwks: None: tokens are not signed.
    """

    def __init__(self, config: OauthConfig, jwks: Jwks | None) -> None:
        self.principal: Principal | None = None
        self.expires_ms: int | None = None
        self._config = config
        self._jwks = jwks
        self._error = ""

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        if self._error and token == b"\x01":
            raise SaslError(self._error)
        first = _FIRST.fullmatch(token.decode(errors="replace"))
        pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01")[:-1]) if first else {}
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if first is None or auth is None or auth["scheme"].lower() != "bearer":
            raise InvalidCredentialsError("the client's first message is malformed")
        try:
            found = await checked(auth["token"], self._config, self._jwks, now_ms)
        except BearerTokenError as error:
            _REFUSALS.tell(logging.INFO, "a token is refused: %s", error)
            self._error = _SCOPES_MISSING % error.scopes if error.scopes else _INVALID
            return self._error.encode()
        authorization = first["authorization"]  # as it was escaped: so Apache Kafka compares it
        if authorization and authorization != found.subject:
            raise SaslError(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from the"
                f" token's principal name ({found.subject})"
            )
        self.principal, self.expires_ms = Principal(USER, found.subject), found.expires_ms
        return b""
