"""Broker options of listeners that authenticate their clients: `ssl.*` and related ones.

Names, types, defaults, bounds and update modes are Apache Kafka's. Each applies to one listener as
`listener.name.NAME.OPTION` and without that prefix to all others (`BrokerConfig.listener_value`). Options that only a
Java class or a connection between brokers could act on are declared with the reason why they have no effect here; a
start that sets one warns with that reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ....storage.topics.options import ConfigError, OptionType, UpdateMode, at_least, one_of, option, options_of
from ..sasl.options import SaslOptions

_BOOLEAN = OptionType.BOOLEAN
_CLASS = OptionType.CLASS
_INT = OptionType.INT
_LIST = OptionType.LIST
_PASSWORD = OptionType.PASSWORD
_STRING = OptionType.STRING

_FIXED = UpdateMode.READ_ONLY
_PER_BROKER = UpdateMode.PER_BROKER


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class SecurityOptions(SaslOptions):
    """Typed values of the security options, for listeners without values of their own."""

    connection_failed_authentication_delay_ms: int = option(
        _INT, 100, at_least(0), "Delay before a connection is closed after a failed authentication.", update=_FIXED
    )
    ssl_allow_dn_changes: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether the subject may change when the certificate of a running listener is replaced.",
        update=_FIXED,
    )
    ssl_allow_san_changes: bool = option(
        _BOOLEAN,
        False,
        None,
        "Whether alternative names may be removed when the certificate of a running listener is replaced.",
        update=_FIXED,
    )
    ssl_cipher_suites: tuple[str, ...] = option(
        _LIST,
        (),
        None,
        "Enabled cipher suites, by their IANA names; empty: the defaults of OpenSSL.",
        update=_PER_BROKER,
    )
    ssl_client_auth: str = option(
        _STRING,
        "none",
        one_of("required", "requested", "none"),
        "Whether TLS clients must, may or need not send a certificate.",
        update=_PER_BROKER,
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        _LIST, ("TLSv1.2", "TLSv1.3"), None, "Enabled TLS versions: TLSv1.2, TLSv1.3.", update=_PER_BROKER
    )
    ssl_endpoint_identification_algorithm: str = option(
        _STRING,
        "https",
        None,
        "No effect in Ottla: it is for connections from one broker to another, and there are none.",
        update=_PER_BROKER,
        acts=False,
    )
    ssl_engine_factory_class: str | None = option(
        _CLASS, None, None, "No effect in Ottla: it names a Java class.", update=_PER_BROKER, acts=False
    )
    ssl_key_password: str | None = option(_PASSWORD, None, None, "Password of the private key.", update=_PER_BROKER)
    ssl_keymanager_algorithm: str = option(
        _STRING,
        "SunX509",
        None,
        "No effect in Ottla: it names an algorithm of the Java virtual machine.",
        update=_PER_BROKER,
        acts=False,
    )
    ssl_keystore_certificate_chain: str | None = option(
        _PASSWORD, None, None, "Certificate chain of the server in PEM, its own certificate first.", update=_PER_BROKER
    )
    ssl_keystore_key: str | None = option(
        _PASSWORD, None, None, "Private key of the server in PEM (PKCS#8).", update=_PER_BROKER
    )
    ssl_keystore_location: str | None = option(
        _STRING, None, None, "File with the private key and the certificates of the server.", update=_PER_BROKER
    )
    ssl_keystore_password: str | None = option(
        _PASSWORD, None, None, "Password of the file ssl.keystore.location.", update=_PER_BROKER
    )
    ssl_keystore_type: str = option(
        _STRING, "JKS", None, "Format of ssl.keystore.location: PEM or PKCS12.", update=_PER_BROKER
    )
    ssl_principal_mapping_rules: str = option(
        _STRING,
        "DEFAULT",
        None,
        "Rules that map the subject of a client's certificate to a user name: RULE:PATTERN/REPLACEMENT/[LU] and"
        " DEFAULT.",
        update=_FIXED,
    )
    ssl_protocol: str = option(
        _STRING,
        "TLSv1.3",
        None,
        "Newest enabled TLS version: TLSv1.3, TLSv1.2; TLS means the newest.",
        update=_PER_BROKER,
    )
    ssl_provider: str | None = option(
        _STRING,
        None,
        None,
        "No effect in Ottla: it names a provider of the Java virtual machine.",
        update=_PER_BROKER,
        acts=False,
    )
    ssl_secure_random_implementation: str | None = option(
        _STRING,
        None,
        None,
        "No effect in Ottla: it names a generator of the Java virtual machine.",
        update=_PER_BROKER,
        acts=False,
    )
    ssl_trustmanager_algorithm: str = option(
        _STRING,
        "PKIX",
        None,
        "No effect in Ottla: it names a certificate validation algorithm of the Java virtual machine.",
        update=_PER_BROKER,
        acts=False,
    )
    ssl_truststore_certificates: str | None = option(
        _PASSWORD, None, None, "Trusted certificates in PEM, for verifying client certificates.", update=_PER_BROKER
    )
    ssl_truststore_location: str | None = option(
        _STRING, None, None, "File with trusted certificates, for verifying client certificates.", update=_PER_BROKER
    )
    ssl_truststore_password: str | None = option(
        _PASSWORD, None, None, "Password of the file ssl.truststore.location.", update=_PER_BROKER
    )
    ssl_truststore_type: str = option(
        _STRING, "JKS", None, "Format of ssl.truststore.location: PEM or PKCS12.", update=_PER_BROKER
    )


OF_ALL_LISTENERS = frozenset({"connection.failed.authentication.delay.ms"})
"""Options that cannot have a value for one listener."""

PER_LISTENER = frozenset(options_of(SecurityOptions).keys() - OF_ALL_LISTENERS)
"""Options that take effect if they are set for one listener."""

CLASS_NAME = "authorizer.class.name"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS = "super.users"
ALLOW_IF_NO_ACL = "allow.everyone.if.no.acl.found"

HANDED_ON = frozenset({SUPER_USERS, ALLOW_IF_NO_ACL})
"""Options that take effect only with an authorizer."""


class Authorization(NamedTuple):
    """Settings of the authorizer."""

    super_users: frozenset[str]
    allow_if_no_acl: bool


def authorization_of(class_name: str, texts: Mapping[str, str]) -> Authorization | None:
    """Return the settings of the authorizer in the static `texts`; None if no authorizer is set.

    `authorizer.class.name` names the class, and Apache Kafka passes other options on to it. Those are not options of
    the broker: DescribeConfigs shows them like any unknown name. Dynamic values that clients set for them have no
    effect (Apache Kafka's StandardAuthorizer reads them once).

    Raises:
        ConfigError: An unsupported class, a super user that is not a principal, an invalid boolean.
    """
    if not class_name:
        return None
    if class_name != STANDARD:
        raise ConfigError(
            f"Invalid value {class_name} for configuration {CLASS_NAME}: Java classes are not supported; must be"
            f" {STANDARD}, or empty for no authorization"
        )
    users = [each.strip() for each in texts.get(SUPER_USERS, "").split(";")]
    for user in filter(None, users):
        if user.find(":") < 1:
            raise ConfigError(
                f"Invalid value {user} for configuration {SUPER_USERS}: must be TYPE:NAME, e.g. User:alice"
            )
    allow = texts.get(ALLOW_IF_NO_ACL, "false").strip().lower()
    if allow not in ("true", "false"):
        raise ConfigError(f"Invalid value {allow} for configuration {ALLOW_IF_NO_ACL}: must be true or false")
    return Authorization(frozenset(filter(None, users)), allow == "true")
