"""`--command-config FILE`: how a command secures its connections, in the properties of Apache Kafka's clients and tools."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ....storage.topics.options import ConfigError
from ....storage.topics.properties import parse_properties
from ...client.security import PLAIN, Security
from ..frame.errors import WrongCallError, did_you_mean
from ..frame.options import COMMAND_CONFIG

if TYPE_CHECKING:
    from ...client.sasl import Credentials

PROTOCOL = "security.protocol"
MECHANISM = "sasl.mechanism"
JAAS = "sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
OFFERED = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def security_of(options: argparse.Namespace) -> Security:
    """What the file that a command was given says; without one, connections are plain.

    Raises:
        WrongCallError: The file cannot be read, or says what cannot be done.
    """
    path = options.command_config or os.environ.get(COMMAND_CONFIG)
    if not path:
        return PLAIN
    try:
        with open(path, encoding="utf-8") as file:
            return security_from(parse_properties(file.read()))
    except UnicodeDecodeError as error:
        raise WrongCallError(f"{path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise WrongCallError(f"cannot read {path}: {error.strerror}") from None
    except ConfigError as error:
        raise WrongCallError(f"{path}: {error}") from None


def security_from(properties: Mapping[str, str]) -> Security:
    """What client properties ask for. Those that are not about security do not count.

    Raises:
        ConfigError: One asks for what cannot be had; one line.
    """
    protocol = properties.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if protocol not in OFFERED:
        raise ConfigError(
            f"Invalid value {protocol} for configuration {PROTOCOL}: must be one of: {', '.join(OFFERED)}"
            + did_you_mean(protocol, OFFERED)
        )
    login = _login(properties) if protocol.startswith("SASL_") else None
    if protocol.endswith("PLAINTEXT"):
        return Security(login=login)
    from ...security.tls.client import NAMES, client_context

    for name in properties:
        if name.startswith("ssl.") and name not in NAMES and name not in _MEAN_NOTHING:
            raise ConfigError(f"{name} is no property of TLS that is known here{did_you_mean(name, NAMES)}")
    return Security(client_context(properties), login)


def _login(properties: Mapping[str, str]) -> Credentials:
    from ...client.sasl import MECHANISMS, OAUTHBEARER, Credentials
    from ...config.sasl.jaas import parse_jaas

    mechanism = properties.get(MECHANISM, "GSSAPI").strip()
    if mechanism not in MECHANISMS:
        raise ConfigError(
            f"Invalid value {mechanism} for configuration {MECHANISM}: must be one of: {', '.join(MECHANISMS)}"
            + did_you_mean(mechanism, MECHANISMS)
        )
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism, token=_bearer_token(properties))
    text = properties.get(JAAS)
    if text is None:
        raise ConfigError(f"{JAAS} is missing, with the username and the password of {mechanism}")
    try:
        modules = parse_jaas(text)
    except ValueError as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {JAAS}: {error}") from None
    options = modules[0].options
    for name in ("username", "password"):
        if not options.get(name):
            raise ConfigError(f"Invalid value [hidden] for configuration {JAAS}: has no {name}")
    is_token = options.get("tokenauth", "false").lower() == "true"
    return Credentials(mechanism, options["username"], options["password"], is_token=is_token)


def _bearer_token(properties: Mapping[str, str]) -> str:
    url = properties.get(TOKEN_URL, "").strip()
    if not url.startswith("file:"):
        raise ConfigError(
            f"Invalid value {url} for configuration {TOKEN_URL}: must be file:PATH of a token; none are asked for over HTTP"
        )
    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path} of {TOKEN_URL}: {getattr(error, 'strerror', 'is no text')}") from None


_MEAN_NOTHING = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Kafka's, and of Java, or up to both sides: a file that is for Java tools, too, may have them."""
