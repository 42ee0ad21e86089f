"""Connections of commands to a broker: a client of the cluster that `--bootstrap` names, with errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ....storage.topics.options import ConfigError
from ....storage.topics.properties import parse_properties
from ...client.kafka import Kafka
from ...client.newest import UNREADABLE, versions_unknown
from ...client.nodes import NodeConnections, check
from ...client.reading import LATEST, LEVELS, Isolation
from ...client.security import PLAIN, Security
from ...client.values import Config, UnreachableError
from ..frame.errors import CommandError, did_you_mean, wrong_call
from ..frame.options import COMMAND_CONFIG, bootstrap_of
from ..frame.printing import visible

if TYPE_CHECKING:
    from ...client.sasl import Credentials

CLIENT_ID = "ottla-cli"
TIMEOUT_MS = 10_000


@contextmanager
def naming_rights(refusal: str) -> Iterator[None]:
    """Raise CommandError with `refusal`, which names the rights, if the block is not authorized for a topic."""
    try:
        yield
    except KafkaError as error:
        if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        raise CommandError(refusal) from error


class ClusterViews(NamedTuple):
    """Two clients of one cluster."""

    kafka: Kafka
    """Client for whole calls."""
    nodes: NodeConnections
    """Client for single requests."""

    def offsets_at(self, topic: str, timestamp: int, isolation: Isolation = "read_uncommitted") -> dict[int, int]:
        """Return the offset for `timestamp` (or EARLIEST, LATEST) in each partition with a leader.

        It is -1 if no such offset exists. One request is sent to each leader.
        """

        def ask() -> dict[int, int]:
            led: dict[int, list[ListOffsetsPartition]] = {}
            for partition in self.nodes.topic(topic).partitions:
                if partition.leader >= 0:
                    wanted = ListOffsetsPartition(partition_index=partition.index, timestamp=timestamp)
                    led.setdefault(partition.leader, []).append(wanted)
            found = {}
            for leader, partitions in led.items():
                request = ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=LEVELS[isolation],
                    topics=(ListOffsetsTopic(name=topic, partitions=tuple(partitions)),),
                    timeout_ms=TIMEOUT_MS,
                )
                for row in self.nodes.ask(request, leader).topics[0].partitions:
                    check(row.error_code, f"topic {topic!r}, partition {row.partition_index}")
                    found[row.partition_index] = row.offset
            return found

        return self.nodes.retrying(ask)

    def ends(self, topic: str) -> dict[int, int]:
        """Return the end of each partition with a leader; empty for a deleted topic."""
        try:
            return self.offsets_at(topic, LATEST)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return {}


def readable_configs(cluster: ClusterViews, topic: str) -> list[Config]:
    """Return the options of a topic; if they cannot be read, say so on standard error, and return none."""
    try:
        return cluster.kafka.configs("topic", topic)
    except KafkaError as error:
        if error.code not in UNREADABLE:
            raise
        print(f"ottla: {visible(versions_unknown(topic, error))}", file=sys.stderr)
        return []


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[ClusterViews]:
    """Connect to the cluster of `--bootstrap`.

    Raises:
        CommandError: WRONG_CALL. Invalid address; no broker reachable there; a request that the broker does not support.
        CommandError: A broker's error inside the block.
    """
    bootstrap, security = bootstrap_of(options), security_of(options)
    try:
        nodes = NodeConnections(bootstrap, client_id=CLIENT_ID, security=security)
        kafka = Kafka(bootstrap, client_id=CLIENT_ID, security=security)
    except ValueError as error:
        raise wrong_call(f"--bootstrap: {error}") from error
    try:
        with kafka, closing(nodes):
            yield ClusterViews(kafka, nodes)
    except KafkaError as error:
        raise CommandError(f"{error.code.name}: {error.message}" if error.message else error.code.name) from error
    except UnreachableError as error:
        raise wrong_call(str(error)) from error
    except (OSError, ProtocolError) as error:
        is_cut_off = isinstance(error, ConnectionError) and security == PLAIN
        hint = "; if its listener requires SASL or TLS, use --command-config" if is_cut_off else ""
        raise wrong_call(f"no broker answers at {bootstrap}: {error}{hint}") from error


PROTOCOL = "security.protocol"
MECHANISM = "sasl.mechanism"
JAAS = "sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
OFFERED = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def security_of(options: argparse.Namespace) -> Security:
    """Return the security settings of a command's connections.

    They come from the file of `--command-config`, with the properties of Apache Kafka's clients and tools. Without a
    file, connections are plain.

    Raises:
        CommandError: WRONG_CALL. The file cannot be read, or has an unsupported setting.
    """
    path = options.command_config or os.environ.get(COMMAND_CONFIG)
    if not path:
        return PLAIN
    try:
        with open(path, encoding="utf-8") as file:
            return security_from(parse_properties(file.read()))
    except UnicodeDecodeError as error:
        raise wrong_call(f"{path} is not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise wrong_call(f"cannot read {path}: {error.strerror}") from None
    except ConfigError as error:
        raise wrong_call(f"{path}: {error}") from None


def security_from(properties: Mapping[str, str]) -> Security:
    """Return the security settings of client properties. Other properties are ignored.

    Raises:
        ConfigError: An unsupported setting; one line.
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
            raise ConfigError(f"unknown TLS property {name}{did_you_mean(name, NAMES)}")
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
        raise ConfigError(f"missing {JAAS}; {mechanism} requires a username and a password")
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
            f"Invalid value {url} for configuration {TOKEN_URL}: must be file:PATH of a token; token requests over HTTP are not supported"
        )
    path = unquote(urlsplit(url).path)
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path} of {TOKEN_URL}: {getattr(error, 'strerror', 'not UTF-8')}") from None


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
"""Properties of Kafka that are ignored, since they are specific to Java or negotiated. A file for Java tools may contain them."""
