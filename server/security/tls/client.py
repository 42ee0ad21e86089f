"""The client's side of TLS: `ssl.*` as Kafka's clients have it, for Ottla's commands."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from ....storage.topics.options import ConfigError
from .contexts import load_key, load_trusted
from .settings import JKS, PEM, VERSIONS, KeySource, check_key_store, check_trust_store
from .stores import read_key, read_trusted

NAMES = frozenset(
    {
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Properties that count."""


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """What a client with these properties connects with. Without a trust store it trusts what the system trusts. Blocks.

    Raises:
        ConfigError: A value, or a file, is not what it should be; one line, without secrets.
    """

    def text(name: str) -> str | None:
        return properties.get(name, "").strip() or None

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("", "https"):
        raise _refused("ssl.endpoint.identification.algorithm", algorithm, "must be https, or empty")
    context.check_hostname = algorithm == "https"
    if (wanted := text("ssl.enabled.protocols")) is not None:
        names = [name.strip() for name in wanted.split(",")]
        versions = [version for name, version in VERSIONS.items() if name in names]
        if not versions:
            raise _refused("ssl.enabled.protocols", wanted, f"must contain one of: {', '.join(VERSIONS)}")
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
    trust_store = KeySource(
        "ssl.truststore",
        (text("ssl.truststore.type") or JKS).upper(),
        text("ssl.truststore.location"),
        text("ssl.truststore.password"),
        certificates=text("ssl.truststore.certificates"),
    )
    check_trust_store(trust_store)
    if trust_store.location is None and trust_store.certificates is None:
        context.load_default_certs()
    else:
        load_trusted(context, trust_store, read_trusted(trust_store))
    if any(text(f"ssl.keystore.{name}") for name in ("location", "key", "certificate.chain")):
        key_store = KeySource(
            "ssl.keystore",
            (text("ssl.keystore.type") or (PEM if text("ssl.keystore.key") else JKS)).upper(),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.key.password"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.keystore.key"),
        )
        check_key_store(key_store)
        load_key(context, key_store, read_key(key_store))
    return context


def _refused(name: str, value: str, bound: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {bound}")
