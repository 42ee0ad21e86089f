"""How commands ask a broker: a client of the cluster that `--bootstrap` names, and what it refuses in one line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ....protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...client.kafka import Kafka
from ...client.nodes import NodeConnections, UnreachableError, check
from ...client.reading import LATEST, LEVELS, Isolation
from ...client.security import PLAIN
from ..frame.errors import CommandError, WrongCallError
from ..frame.options import bootstrap_of
from .security import security_of

CLIENT_ID = "ottla-cli"
TIMEOUT_MS = 10_000


class ClusterViews(NamedTuple):
    """Two views of one cluster."""

    kafka: Kafka
    """Whole calls."""
    nodes: NodeConnections
    """Single requests."""

    def offsets_at(self, topic: str, timestamp: int, isolation: Isolation = "read_uncommitted") -> dict[int, int]:
        """The offset that belongs to `timestamp` (or to EARLIEST, LATEST) in each partition that somebody leads now; -1 where
        there is none. One request a leader."""

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
        """The end of each partition that somebody leads; of a topic that is gone, nothing."""
        try:
            return self.offsets_at(topic, LATEST)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return {}


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[ClusterViews]:
    """The cluster of `--bootstrap`.

    Raises:
        WrongCallError: No address; nobody answers there, or not as a broker does; something that cannot be asked.
        CommandError: What a broker refused inside the block.
    """
    bootstrap, security = bootstrap_of(options), security_of(options)
    try:
        nodes = NodeConnections(bootstrap, client_id=CLIENT_ID, security=security)
        kafka = Kafka(bootstrap, client_id=CLIENT_ID, security=security)
    except ValueError as error:
        raise WrongCallError(f"--bootstrap: {error}") from error
    try:
        with kafka, closing(nodes):
            yield ClusterViews(kafka, nodes)
    except KafkaError as error:
        raise CommandError(f"{error.code.name}: {error.message}" if error.message else error.code.name) from error
    except UnreachableError as error:
        raise WrongCallError(str(error)) from error
    except (OSError, ProtocolError) as error:
        is_cut_off = isinstance(error, ConnectionError) and security == PLAIN
        hint = "; if its listener requires SASL or TLS, use --command-config" if is_cut_off else ""
        raise WrongCallError(f"no broker answers at {bootstrap}: {error}{hint}") from error
