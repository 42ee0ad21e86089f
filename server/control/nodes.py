"""Single nodes, stopped and started again while the others serve."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..runtime.errors import ControlError, Kind
from .broker_state import NodeState, node_states
from .operation import NodeId, operation


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, in id order."""

    nodes: tuple[NodeState, ...]


@operation("GET", "/v1/nodes")
async def list_nodes(broker: Broker) -> Nodes:
    """List the nodes of the process, and whether they are running."""
    return Nodes(node_states(broker))


@operation("POST", "/v1/nodes/{node_id}/stop", statuses=(404, 500))
async def stop_node(broker: Broker, node_id: NodeId) -> NodeState:
    """Stop one node: it hands over its leaderships and closes its connections and listeners.

    A stopped node stays stopped.

    Raises:
        ControlError: NOT_FOUND: node not found; FAILED: the catalog cannot be written, the node continues to serve.
    """
    try:
        await broker.stop_node(node_id)
    except KafkaError as error:
        raise ControlError(Kind.FAILED, f"node {node_id} cannot stop: {error.message}") from error
    return _state(broker, node_id)


@operation("POST", "/v1/nodes/{node_id}/start", statuses=(404, 500))
async def start_node(broker: Broker, node_id: NodeId) -> NodeState:
    """Start a stopped node again, on the same ports.

    A running node is not changed.

    Raises:
        ControlError: NOT_FOUND: node not found; UNAVAILABLE: the broker is stopping; FAILED: its port is in use, or the
            catalog cannot be written; the node stays stopped.
    """
    try:
        await broker.start_node(node_id)
    except (KafkaError, OSError) as error:
        raise ControlError(Kind.FAILED, f"node {node_id} cannot start: {error}") from error
    return _state(broker, node_id)


def _state(broker: Broker, node_id: int) -> NodeState:
    return next(state for state in node_states(broker) if state.node_id == node_id)
