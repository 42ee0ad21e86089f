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
    """HOST:PORT on which it listens."""
    advertised: str
    """HOST:PORT advertised to clients."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node (broker id) of the process."""

    node_id: int
    is_alive: bool
    """Whether it is running; a stopped node leads no partitions and does not listen."""
    rack: str | None
    listeners: tuple[ListenerState, ...]


@dataclass(frozen=True, slots=True)
class DataDirState:
    """One of `log.dirs`."""

    path: str
    is_offline: bool
    """A disk error has taken the directory and all its logs offline until the next start."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """State of the broker."""

    version: str
    """Of Ottla."""
    cluster_id: str
    bootstrap: str
    """HOST:PORT of each node's first listener, comma-separated, in id order."""
    profile: str
    """Source of the defaults: `kafka` or `dev`."""
    emulate: str | None
    """Emulated release of Apache Kafka; null: the newest supported release."""
    serves_since_s: float
    """Seconds since the last start or restart, in real time."""
    now_ms: int
    """The broker's clock, in ms since 1970."""
    nodes: tuple[NodeState, ...]
    data_dirs: tuple[DataDirState, ...]
    topics: int
    """Number of topics, including internal topics."""
    partitions: int
    """Number of logs, including those of internal topics."""


def version() -> str:
    """Of Ottla. The root of the package has it, which we are loaded from: an import would be a circle."""
    root = sys.modules[__name__.removesuffix(".server.control.broker_state")]
    found: str = root.__version__
    return found


@operation("GET", "/v1/broker")
def broker_state(broker: Broker) -> BrokerState:
    """Show version, addresses, nodes, data directories and clock."""
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
