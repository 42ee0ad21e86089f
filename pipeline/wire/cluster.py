"""Address of a Kafka, and its clients' options in a file for Kafka's own tools.

security.protocol=SASL_SSL               --command-config FILE     ->  kafka.security.protocol=SASL_SSL, …
sasl.mechanism=SCRAM-SHA-512
ssl.truststore.location=/etc/kafka/…     a path on the driver and on every worker
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ...storage.disk.own_files import read_secrets
from ...storage.topics.options import ConfigError
from ...storage.topics.properties import parse_properties
from ..errors import UsageError

OURS = frozenset(
    (
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "group.id",
        "interceptor.classes",
        "isolation.level",
        "key.deserializer",
        "key.serializer",
        "value.deserializer",
        "value.serializer",
    )
)
"""Options that the job or the connector sets. They are ignored in a file, which may also be for other tools."""

READ_MORE = {"max.poll.records": "10000"}
"""Default of the connector's polls: it asks for the ends of the log after each one, which has 500 records otherwise."""


@dataclass(frozen=True, slots=True)
class WireCluster:
    """Address and client options of one side."""

    bootstrap: str
    """HOST:PORT[,…]"""
    config: Mapping[str, str] = field(default_factory=dict)
    """Options of Kafka's clients, by their own names."""

    def client_config(self) -> dict[str, str]:
        """Return the options for a client in the driver's JVM."""
        return {**self.config, "bootstrap.servers": self.bootstrap}

    def asked_config(self, timeout_ms: int) -> dict[str, str]:
        """Return the options for a client with few requests, with this timeout unless a file sets another one."""
        given = self.client_config()
        whole_ms = given.get("default.api.timeout.ms", str(timeout_ms))  # one request must not take longer than that
        return {"default.api.timeout.ms": whole_ms, "request.timeout.ms": whole_ms} | given

    def connector_options(self) -> dict[str, str]:
        """Return the options for Spark's connector."""
        return {f"kafka.{name}": value for name, value in (READ_MORE | self.client_config()).items()}


def read_command_config(path: str) -> dict[str, str]:
    """Return the client options of a file of Java properties, without `OURS`.

    Raises:
        OSError: The file cannot be read.
        UsageError: The file has no properties.
    """
    return {name: value for name, value in _read(path)[0].items() if name not in OURS}


def client_options(texts: Iterable[str], option: str, say: Callable[[str], None]) -> dict[str, str]:
    """Return the client options of a command line, each NAME=VALUE or @FILE with Java properties. The last value counts.

    Args:
        option: The name of the command's option.
        say: Receives a warning if other users of the machine can read the passwords of a file.

    Raises:
        OSError: A file cannot be read.
        UsageError: A file has no properties.
    """
    found: dict[str, str] = {}
    for text in texts:
        if text.startswith("@"):
            values, warning = _read(text[1:])
            found.update(values)
            if warning:
                say(f"{option} @{warning}")
        else:
            name, _, value = text.partition("=")
            found[name] = value
    return found


def _read(path: str) -> tuple[dict[str, str], str]:
    """Return the properties of a file, and the warning of `read_secrets`."""
    try:
        text, warning = read_secrets(path)
        return parse_properties(text), warning
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: expected a properties file in UTF-8, found {error.reason}") from error
    except ConfigError as error:
        raise UsageError(f"{path}: {error}") from error
