"""What the options of OAUTHBEARER mean for one listener (KIP-255, KIP-768)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ....storage.topics.options import ConfigError

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
HANDLERS = (
    f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
    UNSECURED_HANDLER,
)
VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")
_UNSECURED = "unsecuredValidator"
_JWKS = "sasl.oauthbearer.jwks.endpoint"
URL = f"{_JWKS}.url"


@dataclass(frozen=True, slots=True)
class OauthConfig:
    """Which tokens are taken."""

    url: str | None
    """Where the keys are that sign them, file: or http(s):; None: tokens are not signed, and everybody makes his own."""
    audience: tuple[str, ...] = ()
    """One of these must be in a token; none: it does not matter."""
    issuer: str | None = None
    clock_skew_ms: int = 30_000
    subject_claim: str = "sub"
    """What names the user."""
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    """All of these must be in a token."""
    refresh_ms: int = 3_600_000
    """After so long keys are fetched anew."""
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    tls: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What an https: server is asked with: `ssl.*` as clients of Kafka have it, names and values."""


def oauth_of(shown: str, value: Callable[[str], Any], jaas: Mapping[str, str], handler: str | None) -> OauthConfig:
    """What they say.

    Args:
        shown: What the names of options begin with in error texts.
        value: Of an option.
        jaas: Options of the login module.

    Raises:
        ConfigError: What cannot be had, in one line.
    """
    url = value(URL)
    wants_unsecured = handler == UNSECURED_HANDLER or any(name.startswith(_UNSECURED) for name in jaas)
    if wants_unsecured:
        if url is not None:
            raise ConfigError(f"Invalid value {url} for configuration {shown}{URL}: unsigned tokens do not need keys")
        return _unsecured(shown, jaas)
    if url is None:
        raise ConfigError(
            f"Missing configuration {shown}{URL}: location of the JSON Web Key Set, file:PATH or https://…; for"
            f" unsigned tokens set sasl.server.callback.handler.class to {UNSECURED_HANDLER}"
        )
    try:
        parts = urlsplit(url)
    except ValueError:  # as of http://[
        parts = urlsplit("")
    if parts.scheme not in ("file", "http", "https") or not (parts.path if parts.scheme == "file" else parts.hostname):
        raise ConfigError(
            f"Invalid value {url} for configuration {shown}{URL}: must be file:PATH, http://… or https://…"
        )
    validator = value(name := "sasl.oauthbearer.jwt.validator.class")
    if validator not in VALIDATORS:
        raise ConfigError(
            f"Invalid value {validator} for configuration {shown}{name}: Java classes are not supported; must be one"
            f" of: {', '.join(VALIDATORS)}"
        )
    refresh_ms, backoff_ms, backoff_max_ms = (
        _at_least(shown, f"{_JWKS}.{name}", value, minimum)
        for name, minimum in (("refresh.ms", 1), ("retry.backoff.ms", 0), ("retry.backoff.max.ms", 0))
    )
    return OauthConfig(
        url,
        value("sasl.oauthbearer.expected.audience"),
        value("sasl.oauthbearer.expected.issuer"),
        1000 * value("sasl.oauthbearer.clock.skew.seconds"),
        value("sasl.oauthbearer.sub.claim.name"),
        value("sasl.oauthbearer.scope.claim.name"),
        refresh_ms=refresh_ms,
        backoff_ms=backoff_ms,
        backoff_max_ms=backoff_max_ms,
        tls=tuple(sorted(each for each in jaas.items() if each[0].startswith("ssl.")))
        if parts.scheme == "https"
        else (),
    )


def _at_least(shown: str, name: str, value: Callable[[str], Any], minimum: int) -> int:
    found: int = value(name)
    if found < minimum:
        raise ConfigError(f"Invalid value {found} for configuration {shown}{name}: must be at least {minimum}")
    return found


def _unsecured(shown: str, jaas: Mapping[str, str]) -> OauthConfig:
    known = {
        f"{_UNSECURED}{name}"
        for name in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope", "AllowableClockSkewMs")
    }
    for name in jaas:
        if name.startswith(_UNSECURED) and name not in known:
            raise ConfigError(
                f"Invalid value [hidden] for configuration {shown}sasl.jaas.config: unknown option {name}"
            )
    skew = jaas.get(f"{_UNSECURED}AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit() and len(skew) < 10):
        raise ConfigError(
            f"Invalid value [hidden] for configuration {shown}sasl.jaas.config: {_UNSECURED}AllowableClockSkewMs must be a"
            " number of milliseconds"
        )
    return OauthConfig(
        None,
        clock_skew_ms=int(skew),
        subject_claim=jaas.get(f"{_UNSECURED}PrincipalClaimName", "sub"),
        scope_claim=jaas.get(f"{_UNSECURED}ScopeClaimName", "scope"),
        scopes=tuple(jaas.get(f"{_UNSECURED}RequiredScope", "").split()),
    )
