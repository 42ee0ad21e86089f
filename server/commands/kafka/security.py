"""`--command-config FILE`: how a command secures its connections, in the properties of Apache Kafka's clients and tools."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from ....storage.topics.options import ConfigError
from ...client.security import PLAIN, Security
from ...config.properties import parse_properties
from ..frame.errors import WrongCallError, did_you_mean
from ..frame.options import COMMAND_CONFIG

PROTOCOL = "security.protocol"
OFFERED = ("PLAINTEXT", "SSL")


def security_of(options: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Security:
    """What the file that a command was given says; without one, connections are plain.

    Raises:
        WrongCallError: The file cannot be read, or says what cannot be done.
    """
    path = options.command_config or environment.get(COMMAND_CONFIG)
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
    if protocol == "PLAINTEXT":
        return PLAIN
    from ...security.tls.client import NAMES, client_context

    for name in properties:
        if name.startswith("ssl.") and name not in NAMES and name not in _MEAN_NOTHING:
            raise ConfigError(f"{name} is no property of TLS that is known here{did_you_mean(name, NAMES)}")
    return Security(client_context(properties))


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
