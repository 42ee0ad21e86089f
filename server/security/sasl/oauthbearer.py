"""OAUTHBEARER (RFC 7628, KIP-255): login with a token of an issuer that the broker trusts.

client  n,,^Aauth=Bearer TOKEN^A^A
broker  empty, or the error in JSON, which the client confirms with ^A
"""

from __future__ import annotations

import json
import logging
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...config.sasl.oauth import OauthConfig
from ...runtime.log_rate_limit import LogRateLimiter
from ..principal import USER, Principal, UnprovenError
from .jwks import Jwks, ProvedToken

_REFUSALS = LogRateLimiter(logging.getLogger("ottla.sasl"))

_NAME = r"(?:[\x01-+\x2d-<>-\x7f]|=(?:2C|3D))+"
_FIRST = re.compile(rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")
_INVALID = '{"status":"invalid_token"}'
_SCOPES_MISSING = '{"status":"insufficient_scope", "scope":"%s"}'

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Accepted algorithms. Only those with public keys: the holder of a shared key could make tokens."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """Facts of an accepted token."""

    subject: str
    expires_ms: int


async def checked(text: str, config: OauthConfig, jwks: Jwks | None, now_ms: int) -> BearerToken:
    """Check a token at this wall time and return its facts.

    Raises UnprovenError if it is refused. The reason is for the log, and has nothing of the token's content.

    Args:
        jwks: Keys, one of which must have signed it; None: it must not be signed.
    """
    claims = _unsigned(text) if jwks is None else await _signed(text, jwks)
    found = _subject_and_times(claims, config, now_ms, is_signed=jwks is not None)
    if jwks is None:
        _check_scopes(claims.get(config.scope_claim), config.scopes)
    else:
        _check_names(claims, config)
        _check_form_of_scopes(claims.get(config.scope_claim))
    return found


def _subject_and_times(claims: dict[str, Any], config: OauthConfig, now_ms: int, *, is_signed: bool) -> BearerToken:
    subject = claims.get(config.subject_claim)
    if not isinstance(subject, str) or not subject.strip() or not _is_text(subject):
        raise UnprovenError(f"claim {config.subject_claim}, which names the user, is missing or invalid")
    try:
        subject.encode()
    except UnicodeEncodeError:  # JSON may contain half a surrogate pair, which responses and logs cannot
        raise UnprovenError(f"claim {config.subject_claim} is not valid Unicode") from None
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    if expires_ms is None:
        raise UnprovenError("claim exp is missing: tokens must expire")
    if issued_ms is None and is_signed:
        raise UnprovenError("claim iat is missing")
    if now_ms >= expires_ms + config.clock_skew_ms:
        raise UnprovenError("token has expired (exp)")
    # Apache Kafka looks at the time of issue of unsigned tokens, and at the claim nbf of signed ones.
    begins_ms = _time_ms(claims, "nbf") if is_signed else issued_ms
    if begins_ms is not None and begins_ms > now_ms + config.clock_skew_ms:
        raise UnprovenError("token is not yet valid (nbf or iat)")
    if max(issued_ms or 0, begins_ms or 0) > expires_ms:
        raise UnprovenError("token expires before it is issued or becomes valid")
    return BearerToken(subject.strip() if is_signed else subject, expires_ms)


def _check_names(claims: dict[str, Any], config: OauthConfig) -> None:
    for name in ("iss", "sub", "jti"):
        if not isinstance(claims.get(name), str | None):
            raise UnprovenError(f"claim {name} is not a string")
    if config.issuer is not None and claims.get("iss") != config.issuer:
        raise UnprovenError("issuer (iss) is not sasl.oauthbearer.expected.issuer")
    if not config.audience:
        return
    audience = claims.get("aud")
    heard = [audience] if isinstance(audience, str) else audience
    if not isinstance(heard, list) or not all(isinstance(each, str) for each in heard):
        raise UnprovenError("token has an invalid audience (aud)")
    if set(heard).isdisjoint(config.audience):
        raise UnprovenError("audience (aud) does not contain any of sasl.oauthbearer.expected.audience")


def _check_form_of_scopes(scope: Any) -> None:
    """Raise unless the scopes of a signed token are well-formed.

    Their values are not checked: what the client may do is a matter of ACLs.
    """
    scopes = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
    names = [each.strip() if isinstance(each, str) else "" for each in scopes]
    if not all(names) or len(set(names)) < len(names):
        raise UnprovenError("token has an empty, invalid or duplicate scope")


def _check_scopes(scope: Any, wanted: tuple[str, ...]) -> None:
    if not isinstance(scope, str | list | None):
        raise UnprovenError("scope is neither a string nor a list")
    scopes = [scope.strip()] if isinstance(scope, str) else scope or []
    if any(each not in scopes for each in wanted):
        raise UnprovenError("token lacks a required scope", missing_scopes=f"[{', '.join(wanted)}]")


async def _signed(text: str, jwks: Jwks) -> dict[str, Any]:
    import jwt

    try:
        known = jwks.proved.get(text)
        key_id, algorithm = (known.key_id, known.algorithm) if known else _header(text)
        key = await jwks.key(key_id, algorithm)
        if key is None:
            raise UnprovenError("no signing key has the token's key ID (kid)")
        if known is None or known.key is not key:
            # The claims are checked by the caller: times are the broker's, which tests move.
            content = jwt.PyJWS().decode(text, key, algorithms=[algorithm])
            known = ProvedToken(key_id, algorithm, key, content)
            jwks.proved.put(text, known)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise UnprovenError(f"invalid signature or malformed token ({type(error).__name__})") from None
    return _object(known.content, _said_once)


def _header(text: str) -> tuple[str | None, str]:
    """Return the ID of the key that signed the token, and the algorithm, from its header.

    The rest is read once the key is found.
    """
    import jwt

    header = jwt.get_unverified_header(f"{text.partition('.')[0]}..")
    if header.get("alg") not in ALGORITHMS:
        raise UnprovenError("signature algorithm (alg) is not supported")
    return header.get("kid"), header["alg"]


def _unsigned(text: str) -> dict[str, Any]:
    parts = text.split(".")
    if len(parts) != 3 or parts[2]:
        raise UnprovenError("not a token without a signature")
    header, claims = (_json(part) for part in parts[:2])
    if header.get("alg") != "none":
        raise UnprovenError("algorithm (alg) must be none")
    return claims


def _json(part: str) -> dict[str, Any]:
    try:
        return _object(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        raise UnprovenError("malformed token") from None


def _object(text: bytes, made: Callable[[list[tuple[str, Any]]], dict[str, Any]] = dict) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=made)
    except (ValueError, RecursionError):
        raise UnprovenError("malformed token") from None
    if not isinstance(found, dict):
        raise UnprovenError("malformed token")
    return found


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _is_text(value: str) -> bool:
    """Return whether a text can be encoded: JSON may contain half a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time_ms(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise UnprovenError(f"claim {name} is not a valid time")
    return int(value * 1000)


class OauthConversation:
    """Login of one client.

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
            raise UnprovenError(self._error, is_told=True)
        first = _FIRST.fullmatch(token.decode(errors="replace"))
        pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01")[:-1]) if first else {}
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if first is None or auth is None or auth["scheme"].lower() != "bearer":
            raise UnprovenError("the client's first message is malformed")
        try:
            found = await checked(auth["token"], self._config, self._jwks, now_ms)
        except UnprovenError as error:
            _REFUSALS.log(logging.INFO, "token rejected: %s", error)
            self._error = _SCOPES_MISSING % error.missing_scopes if error.missing_scopes else _INVALID
            return self._error.encode()
        authorization = first["authorization"]  # compared in its escaped form, as in Apache Kafka
        if authorization and authorization != found.subject:
            raise UnprovenError(
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different from the"
                f" token's principal name ({found.subject})",
                is_told=True,
            )
        self.principal, self.expires_ms = Principal(USER, found.subject), found.expires_ms
        return b""
