"""TLS settings of one listener, from its `ssl.*` options, checked without reading files."""

from __future__ import annotations

import difflib
import re
import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from ....storage.topics.options import ConfigError, Value, format_value
from ...config.options.security_options import PER_LISTENER
from .mapping_rules import Rule, parse_rules

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Supported versions, by Java's names."""
_OLD_VERSIONS = ("SSLv2", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Versions that Java knows and no longer supports (its option jdk.tls.disabledAlgorithms)."""
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class KeySource:
    """Source of keys or certificates: a file, or texts in PEM."""

    prefix: str
    """`ssl.keystore` or `ssl.truststore`, after `listener.name.NAME.` if options are set for that listener."""
    type: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)

    def refused(self, what: str, reason: str) -> ConfigError:
        """Return the error that names the option `what` of this store, and its value unless that is secret."""
        shown = {"location": self.location, "type": self.type}.get(what) or "[hidden]"
        return ConfigError(f"Invalid value {shown} for configuration {self.prefix}.{what}: {reason}")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS settings of one listener. Listeners with equal settings share one context."""

    option_prefix: str
    """`listener.name.NAME.`"""
    key_store: KeySource
    trust_store: KeySource | None
    client_auth: ssl.VerifyMode
    versions: tuple[ssl.TLSVersion, ...]
    """Versions without gaps, the oldest first."""
    ciphers: Ciphers | None
    rules: tuple[Rule, ...]
    allows_other_names: bool
    allows_fewer_alternative_names: bool
    failure_delay_ms: int
    names_clients: bool
    """Whether the subject of a client's certificate is its user."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """One line for each part of a value that has no effect here."""


def tls_settings(config: BrokerConfig, listener: str, *, is_over_sasl: bool = False) -> TlsSettings:
    """Return the TLS settings of the listener of this name.

    Args:
        is_over_sasl: Its clients log in with SASL. Then `ssl.client.auth` applies only if it is set for this listener, as in
            Apache Kafka, and certificates do not identify the clients.

    Raises:
        ConfigError: A value is unsupported, alone or with others; names value, option and bound.
    """
    prefix = f"listener.name.{listener.lower()}."

    def value(name: str) -> Value:
        return config.listener_value(listener, name)

    def text(name: str) -> str | None:
        found = value(name)
        return None if found is None or found == "" else format_value(found)

    def refused(name: str, bound: str) -> ConfigError:
        own = prefix if config.is_set(prefix + name) else ""
        return ConfigError(
            f"Invalid value {format_value(value(name))} for configuration {own}{name}: {bound} (listener {listener})"
        )

    warnings: list[str] = []
    enabled = value("ssl.enabled.protocols")
    assert isinstance(enabled, tuple)
    for name in enabled:
        if name in _OLD_VERSIONS:
            warnings.append(f"{prefix}ssl.enabled.protocols: {name} is not supported, as in current Java; ignored")
        elif name not in VERSIONS:
            raise refused("ssl.enabled.protocols", f"{name} not found{_suggestion(name, VERSIONS)}")
    if text("ssl.protocol") not in ("TLS", *VERSIONS):
        raise refused("ssl.protocol", f"must be one of: TLS, {', '.join(VERSIONS)}")
    versions = tuple(version for name, version in VERSIONS.items() if name in enabled)
    suites = value("ssl.cipher.suites")
    assert isinstance(suites, tuple)
    try:
        ciphers = ciphers_of(suites) if suites else None
    except ValueError as error:
        raise refused("ssl.cipher.suites", str(error)) from None
    if ciphers is not None:
        versions = tuple(version for version in versions if version in ciphers.versions)
    if not versions:
        raise refused(
            "ssl.enabled.protocols",
            f"must contain one of: {', '.join(VERSIONS)}" + (" with a suite in ssl.cipher.suites" if suites else ""),
        )
    client_auth = format_value(value("ssl.client.auth"))
    if is_over_sasl and client_auth != "none" and not config.is_set(f"{prefix}ssl.client.auth"):
        warnings.append(
            f"ssl.client.auth={client_auth} has no effect on SASL listeners; use {prefix}ssl.client.auth for {listener}"
        )
        client_auth = "none"
    rules = text("ssl.principal.mapping.rules") or "DEFAULT"
    try:
        parsed = parse_rules(rules)
    except ValueError as error:
        raise refused("ssl.principal.mapping.rules", str(error)) from None
    # Errors name an option in the form in which it was set.
    shown = prefix if any(config.is_set(prefix + name) for name in PER_LISTENER) else ""
    key_store = KeySource(
        f"{shown}ssl.keystore",
        (text("ssl.keystore.type") or JKS).upper(),
        text("ssl.keystore.location"),
        text("ssl.keystore.password"),
        text("ssl.key.password"),
        text("ssl.keystore.certificate.chain"),
        text("ssl.keystore.key"),
    )
    check_key_store(key_store)
    trust_store = KeySource(
        f"{shown}ssl.truststore",
        (text("ssl.truststore.type") or JKS).upper(),
        text("ssl.truststore.location"),
        text("ssl.truststore.password"),
        certificates=text("ssl.truststore.certificates"),
    )
    check_trust_store(trust_store)
    return TlsSettings(
        prefix,
        key_store,
        trust_store if trust_store.location or trust_store.certificates else None,
        _CLIENT_AUTH[client_auth],
        versions,
        ciphers,
        parsed,
        bool(value("ssl.allow.dn.changes")),
        bool(value("ssl.allow.san.changes")),
        config.connection_failed_authentication_delay_ms,
        not is_over_sasl,
        tuple(warnings),
    )


def check_key_store(store: KeySource) -> None:
    """Check which options of a key store go together, by Apache Kafka's rules. Raises ConfigError."""
    _check_type(store)
    if store.key is None and store.certificates is not None:
        raise store.refused("certificate.chain", f"{store.prefix}.key is not set")
    if store.key is not None:
        if store.type != PEM:
            raise store.refused("type", f"must be {PEM} if {store.prefix}.key is set")
        if store.certificates is None:
            raise store.refused("key", f"{store.prefix}.certificate.chain is not set")
        if store.location is not None:
            raise store.refused("location", f"must not be set together with {store.prefix}.key")
    elif store.location is None:
        raise ConfigError(
            f"{store.prefix}.location is not set: a TLS listener needs a private key and a certificate, in that file or"
            f" as {store.prefix}.key and {store.prefix}.certificate.chain"
        )
    if store.type == PEM and store.password is not None:
        raise store.refused("password", f"must not be set for type {PEM}; use ssl.key.password for the private key")
    if store.type != PEM and store.password is None:
        raise store.refused("location", f"{store.prefix}.password is not set")


def check_trust_store(store: KeySource) -> None:
    """Check which options of a trust store go together; both location and certificates may be missing. Raises ConfigError."""
    if store.certificates is not None:
        if store.type != PEM:
            raise store.refused("type", f"must be {PEM} if {store.prefix}.certificates is set")
        if store.location is not None:
            raise store.refused("location", f"must not be set together with {store.prefix}.certificates")
    elif store.location is None:
        if store.password is not None:
            raise store.refused("password", f"{store.prefix}.location is not set")
        return
    _check_type(store)
    if store.type == PEM and store.password is not None:
        raise store.refused("password", f"must not be set for type {PEM}")


def _check_type(store: KeySource) -> None:
    # A JKS store of Java can also be PKCS#12, and the reverse: the file decides.
    if store.type not in (PEM, PKCS12, JKS):
        raise store.refused("type", f"must be one of: {PEM}, {PKCS12}{_suggestion(store.type, (PEM, PKCS12))}")


def _suggestion(name: str, known: object) -> str:
    close = difflib.get_close_matches(name[:100], list(known), n=1)  # type: ignore[call-overload]
    return f"; did you mean {close[0]}?" if close else ""


_OF_TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""Suites of TLS 1.3 that OpenSSL offers."""
CAN_CHOOSE_TLS_1_3 = hasattr(ssl.SSLContext, "set_ciphersuites")
"""Whether suites of TLS 1.3 can be chosen, from Python 3.15 on. Before, a listener offers all of them or none."""
_STEPS = (
    (r"^TLS_", ""),
    (r"^RSA_WITH_", ""),
    (r"_WITH_", "-"),
    (r"AES_(128|256)", r"AES\1"),
    (r"_CBC(?=_)", ""),
    (r"CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    (r"CCM_8", "CCM8"),
    (r"_", "-"),
)
"""Replacements that turn IANA's names of suites into OpenSSL's."""


@dataclass(frozen=True, slots=True)
class Ciphers:
    """A choice of suites, by OpenSSL's names."""

    of_tls_1_2: tuple[str, ...]
    of_tls_1_3: tuple[str, ...]

    @property
    def versions(self) -> tuple[ssl.TLSVersion, ...]:
        """The versions of TLS for which a suite is chosen."""
        pairs = (ssl.TLSVersion.TLSv1_2, self.of_tls_1_2), (ssl.TLSVersion.TLSv1_3, self.of_tls_1_3)
        return tuple(version for version, names in pairs if names)

    def choose(self, context: ssl.SSLContext) -> None:
        """Make `context` offer these suites and no others."""
        if self.of_tls_1_2:
            context.set_ciphers(":".join(self.of_tls_1_2))
        if self.of_tls_1_3 and CAN_CHOOSE_TLS_1_3:
            context.set_ciphersuites(":".join(self.of_tls_1_3))  # type: ignore[attr-defined]


def ciphers_of(suites: tuple[str, ...]) -> Ciphers:
    """Return the choice of suites by IANA's names, which Java also uses (`ssl.cipher.suites`), with OpenSSL's names.

    Raises:
        ValueError: OpenSSL has no such suite; or this Python cannot disable the others of TLS 1.3.
    """
    older: list[str] = []
    newer: list[str] = []
    for suite in suites:
        if suite in _OF_TLS_1_3:
            newer.append(suite)
            continue
        name = suite
        for pattern, replacement in _STEPS:
            name = re.sub(pattern, replacement, name)
        if name not in _known_suites():
            close = difflib.get_close_matches(suite[:100], _OF_TLS_1_3, n=1, cutoff=0.8)
            raise ValueError(
                f"cipher suite {suite} not found in OpenSSL" + (f"; did you mean {close[0]}?" if close else "")
            )
        older.append(name)
    if newer and len(newer) < len(_OF_TLS_1_3) and not CAN_CHOOSE_TLS_1_3:
        raise ValueError(
            f"Python before 3.15 cannot select individual TLS 1.3 cipher suites: list all of {', '.join(_OF_TLS_1_3)},"
            " or none"
        )
    return Ciphers(tuple(older), tuple(newer))


@cache
def _known_suites() -> frozenset[str]:
    """Return the suites of TLS 1.2 that a server may choose, with a certificate and encryption."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:!aNULL:!eNULL:!PSK:!SRP")
    return frozenset(each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3")
