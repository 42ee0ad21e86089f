"""Where a Kafka is, and what its clients need: an address, and a file of options as Kafka's own tools take it.

security.protocol=SASL_SSL               --command-config FILE     ->  kafka.security.protocol=SASL_SSL, …
sasl.mechanism=SCRAM-SHA-512
ssl.truststore.location=/etc/kafka/…     a path on the driver and on every worker
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Cluster:
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
        OSError: It cannot be read.
        UsageError: It is no text.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: expected a file of properties in UTF-8, found {error.reason}") from error
    return {name: value for name, value in properties(text) if name not in OURS}


def properties(text: str) -> Iterator[tuple[str, str]]:
    """What java.util.Properties reads: `name=value`, `name: value`, `name value`, comments, lines that go on behind a backslash."""
    logical = ""
    for line in text.splitlines():
        line = line.lstrip()
        if not logical and line[:1] in ("", "#", "!"):
            continue
        logical += line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            logical = logical[:-1]
            continue
        yield _split(logical)
        logical = ""
    if logical:
        yield _split(logical)


def _split(line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    assert found is not None  # it takes any text
    return _unescaped(found[1]), _unescaped(found[2])


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(one, text)
