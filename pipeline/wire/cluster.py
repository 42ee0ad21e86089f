"""Where a Kafka is, and what its clients need: an address, and a file of options as Kafka's own tools take it.

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
"""What the job, or the connector, says itself. A file that has them is one for other tools, too: they are passed over."""

READ_MORE = {"max.poll.records": "10000"}
"""The connector asks for the ends of the log after every poll, of 500 records unless told otherwise."""


@dataclass(frozen=True, slots=True)
class WireCluster:
    """One side."""

    bootstrap: str
    """HOST:PORT[,…]"""
    config: Mapping[str, str] = field(default_factory=dict)
    """Of Kafka's clients, by their own names."""

    def client_config(self) -> dict[str, str]:
        """For a client in the driver's JVM."""
        return {**self.config, "bootstrap.servers": self.bootstrap}

    def asked_config(self, timeout_ms: int) -> dict[str, str]:
        """For a client that is asked little, and has so long for an answer unless a file says otherwise."""
        given = self.client_config()
        whole_ms = given.get("default.api.timeout.ms", str(timeout_ms))  # one request must not take longer than that
        return {"default.api.timeout.ms": whole_ms, "request.timeout.ms": whole_ms} | given

    def connector_options(self) -> dict[str, str]:
        """For Spark's connector."""
        return {f"kafka.{name}": value for name, value in (READ_MORE | self.client_config()).items()}


def read_command_config(path: str) -> dict[str, str]:
    """The client options of a file of Java properties, without `OURS`.

    Raises:
        OSError: The file cannot be read.
        UsageError: The file has no properties.
    """
    return {name: value for name, value in _read(path)[0].items() if name not in OURS}


def client_options(texts: Iterable[str], option: str, say: Callable[[str], None]) -> dict[str, str]:
    """The client options of a command line, each NAME=VALUE or @FILE with Java properties. A later one wins.

    Args:
        option: The name of the command's option.
        say: Receives a warning where other users of the machine may use the passwords of a file.

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
    """The properties of a file, and a warning as `read_secrets` has it."""
    try:
        text, warning = read_secrets(path)
        return parse_properties(text), warning
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: expected a file of properties in UTF-8, found {error.reason}") from error
    except ConfigError as error:
        raise UsageError(f"{path}: {error}") from error
