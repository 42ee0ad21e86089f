"""What a token of OAUTHBEARER says (RFC 7519), and whether that counts: signature, times, issuer, audience, scope."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from typing import Any

from ...config.sasl.oauth import OauthConfig
from .jwks import Jwks

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""With public keys alone: whoever knew a shared key could make tokens."""


class TokenError(Exception):
    """A token does not count. The text says why, without what is in it; `scopes` are those that it lacks."""

    def __init__(self, why: str, scopes: str = "") -> None:
        super().__init__(why)
        self.scopes = scopes


@dataclass(frozen=True, slots=True)
class BearerToken:
    """One that counts."""

    subject: str
    expires_ms: int


async def checked(text: str, config: OauthConfig, jwks: Jwks | None, now_ms: int) -> BearerToken:
    """What a token says, at this wall time. TokenError if it does not count.

    Args:
        jwks: Keys, one of which must have signed it; None: it must not be signed.
    """
    claims = _unsigned(text) if jwks is None else await _signed(text, jwks)
    subject = claims.get(config.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenError(f"it has no claim {config.subject_claim} that names a user")
    expires_ms, issued_ms, not_before_ms = (_time_ms(claims, name) for name in ("exp", "iat", "nbf"))
    if expires_ms is None:
        raise TokenError("it has no claim exp: tokens must expire")
    if issued_ms is None and jwks is not None:
        raise TokenError("it has no claim iat")
    if now_ms >= expires_ms + config.clock_skew_ms:
        raise TokenError("it has expired")
    if max(not_before_ms or 0, 0 if jwks else issued_ms or 0) > now_ms + config.clock_skew_ms:
        raise TokenError("it does not count yet")
    if issued_ms is not None and issued_ms > expires_ms:
        raise TokenError("it expired before it was issued")
    if config.issuer is not None and claims.get("iss") != config.issuer:
        raise TokenError("its issuer is another one than sasl.oauthbearer.expected.issuer")
    audience = claims.get("aud")
    heard = {audience} if isinstance(audience, str) else set(_texts(audience))
    if config.audience and heard.isdisjoint(config.audience):
        raise TokenError("it is for none of sasl.oauthbearer.expected.audience")
    scope = claims.get(config.scope_claim)
    scopes = scope.split() if isinstance(scope, str) else _texts(scope)
    if not set(config.scopes) <= set(scopes):
        raise TokenError("it lacks a scope", " ".join(config.scopes))
    return BearerToken(subject.strip(), expires_ms)


async def _signed(text: str, jwks: Jwks) -> dict[str, Any]:
    import jwt

    try:
        header = jwt.get_unverified_header(text)
        if header.get("alg") not in ALGORITHMS:
            raise TokenError("its algorithm is none that is taken")
        key = await jwks.key(header.get("kid"))
        if key is None:
            raise TokenError("no key of its id signs tokens")
        # Times are the broker's, which tests move: only the signature is PyJWT's.
        found: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[header["alg"]],
            options={f"verify_{what}": False for what in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")},
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise TokenError(f"it is no token that is signed by a known key ({type(error).__name__})") from None
    return found


def _unsigned(text: str) -> dict[str, Any]:
    parts = text.split(".")
    if len(parts) != 3 or parts[2]:
        raise TokenError("it is no token without a signature")
    header, claims = (_json(part) for part in parts[:2])
    if header.get("alg") != "none":
        raise TokenError("its algorithm must be none")
    return claims


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise TokenError("it is no token") from None
    if not isinstance(found, dict):
        raise TokenError("it is no token")
    return found


def _time_ms(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenError(f"its claim {name} is no time")
    return int(value * 1000)


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
