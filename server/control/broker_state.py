"""What the broker is: where it listens, which nodes it plays, where its data is."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import trio

from ..broker.broker import Broker
from ..cluster.nodes import Node
from .operation import operation


@dataclass(frozen=True, slots=True)
class ListenerState:
    """One address of a node."""

    name: str
    address: str
    """HOST:PORT that it listens on."""
    advertised: str
    """HOST:PORT that clients are told."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One broker id that the process plays."""

    node_id: int
    is_alive: bool
    """Whether it serves; a stopped node leads nothing, and listens nowhere."""
    rack: str | None
    listeners: tuple[ListenerState, ...]


@dataclass(frozen=True, slots=True)
class DataDirState:
    """One of `log.dirs`."""

    path: str
    is_offline: bool
    """A disk error has taken it, and all logs in it, out of use until the next start."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The whole broker at this moment."""

    version: str
    """Of Ottla."""
    cluster_id: str
    bootstrap: str
    """HOST:PORT of each node's first listener, comma-separated, in id order."""
    profile: str
    """`kafka` or `dev`: where its defaults come from."""
    emulate: str | None
    """The release of Apache Kafka that it plays; null: the newest that Ottla has."""
    serves_since_s: float
    """How long this life of it has served, in seconds that no moved clock changes."""
    now_ms: int
    """The broker's clock, ms since 1970."""
    nodes: tuple[NodeState, ...]
    data_dirs: tuple[DataDirState, ...]
    topics: int
    """How many, internal ones too."""
    partitions: int
    """How many logs, likewise."""


def version() -> str:
    """Of Ottla. The root of the package has it, which we are loaded from: an import would be a circle."""
    root = sys.modules[__name__.removesuffix(".server.control.broker_state")]
    found: str = root.__version__
    return found


@operation("GET", "/v1/broker")
def broker_state(broker: Broker) -> BrokerState:
    """Version, addresses, nodes, data directories, clock."""
    services = broker.services
    logs = services.logs
    return BrokerState(
        version=version(),
        cluster_id=services.cluster.cluster_id,
        bootstrap=broker.bootstrap,
        profile=broker.config.static.profile,
        emulate=broker.config.static.emulate,
        serves_since_s=round(trio.current_time() - broker.began_s, 3),
        now_ms=broker.clock.now_ms(),
        nodes=node_states(broker),
        data_dirs=tuple(DataDirState(path, logs.is_offline(path)) for path in logs.data_dirs),
        topics=len(services.topics),
        partitions=len(logs.logs),
    )


def node_states(broker: Broker) -> tuple[NodeState, ...]:
    """All nodes, in id order."""
    return tuple(map(_node_state, broker.nodes))


def _node_state(node: Node) -> NodeState:
    listeners = tuple(
        ListenerState(each.name, each.address, f"{each.advertised_host}:{each.advertised_port}")
        for each in node.listeners
    )
    return NodeState(node.node_id, node.is_alive, node.rack, listeners)
