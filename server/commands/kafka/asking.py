"""How commands ask a broker: a client of the cluster that `--bootstrap` names, and what it refuses in one line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...client.kafka import Kafka
from ...client.nodes import Nodes, UnreachableError
from ..frame.errors import RefusedError, WrongCallError
from ..frame.options import bootstrap_of

CLIENT_ID = "ottla-cli"


class Cluster(NamedTuple):
    """Two views of one cluster."""

    kafka: Kafka
    """Whole calls."""
    nodes: Nodes
    """Single requests."""

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition; of a topic that is gone, nothing."""
        try:
            return {index: offsets.end for index, offsets in self.kafka.offsets(topic).items()}
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return {}


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[Cluster]:
    """The cluster of `--bootstrap`.

    Raises:
        WrongCallError: No address; nobody answers there, or not as a broker does; something that cannot be asked.
        RefusedError: What a broker refused inside the block.
    """
    bootstrap = bootstrap_of(options)
    try:
        nodes, kafka = Nodes(bootstrap, client_id=CLIENT_ID), Kafka(bootstrap, client_id=CLIENT_ID)
    except ValueError as error:
        raise WrongCallError(f"--bootstrap: {error}") from error
    try:
        with kafka, closing(nodes):
            yield Cluster(kafka, nodes)
    except KafkaError as error:
        raise RefusedError(f"{error.code.name}: {error.message}" if error.message else error.code.name) from error
    except UnreachableError as error:
        raise WrongCallError(str(error)) from error
    except (OSError, ProtocolError) as error:
        raise WrongCallError(f"no broker answers at {bootstrap}: {error}") from error
