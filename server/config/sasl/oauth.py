"""OAUTHBEARER's options of one listener (KIP-255, KIP-768)."""

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
    """Requirements on tokens."""

    url: str | None
    """URL of the keys that sign tokens, file: or http(s):; None: tokens are unsigned, and every client makes its own."""
    audience: tuple[str, ...] = ()
    """A token must have one of these audiences; empty: audiences are not checked."""
    issuer: str | None = None
    """A token must have this issuer; None: issuers are not checked."""
    clock_skew_ms: int = 30_000
    subject_claim: str = "sub"
    """Claim with the user's name."""
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()
    """A token must have all of these scopes."""
    refresh_ms: int = 3_600_000
    """Interval at which keys are fetched again."""
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    tls: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """TLS options of requests to an https: server, names and values: the `ssl.*` of Kafka clients."""


def oauth_of(shown: str, value: Callable[[str], Any], jaas: Mapping[str, str], handler: str | None) -> OauthConfig:
    """Return the requirements that the options describe.

    Args:
        shown: Prefix of option names in errors.
        value: Function from option to value.
        jaas: Options of the login module.

    Raises:
        ConfigError: An unsupported setting, in one line.
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
    except ValueError:  # e.g. for http://[
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
    audience = value("sasl.oauthbearer.expected.audience")
    issuer = value("sasl.oauthbearer.expected.issuer") or None
    for what, expected, allowed in (
        ("audience", audience, "sasl.oauthbearer.allow.unverified.audience"),
        ("issuer", issuer, "sasl.oauthbearer.allow.unverified.issuer"),
    ):
        if not expected and not value(allowed):
            raise ConfigError(
                f"Missing configuration {shown}sasl.oauthbearer.expected.{what}: {what} of the tokens to accept; for tokens"
                f" of any {what} set {allowed} to true"
            )
    return OauthConfig(
        url,
        audience,
        issuer,
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
