"""The broker as a whole, and its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...control.broker_state import BrokerState, NodeState, broker_state, node_states
from ...control.connections import ConnectionList, list_connections
from ...control.nodes import start_node, stop_node
from ...control.status import BARS_MAX, Status, status
from ..call import Call, Lives, Nothing
from ..fields import Range, TopicName

_INT32_MAX = 2**31 - 1


async def state(lives: Lives, request: Nothing) -> BrokerState:
    return broker_state(lives.broker)


@dataclass(frozen=True, slots=True)
class StatusRequest:
    topic: TopicName | None = None
    """Of all topics this one."""
    internal: bool = False
    """The broker's own topics, too, where none is named."""
    bars_max: Annotated[int, Range(1, 1_000)] = BARS_MAX
    """As of a topic's picture."""


async def whole(lives: Lives, request: StatusRequest) -> Status:
    return await status(lives.broker, request.topic, internal=request.internal, bars_max=request.bars_max)


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, in id order."""

    nodes: tuple[NodeState, ...]


@dataclass(frozen=True, slots=True)
class NodeRequest:
    node_id: Annotated[int, Range(0, _INT32_MAX)]


async def connections(lives: Lives, request: Nothing) -> ConnectionList:
    return await list_connections(lives.broker)


async def nodes(lives: Lives, request: Nothing) -> Nodes:
    return Nodes(node_states(lives.broker))


async def stop(lives: Lives, request: NodeRequest) -> NodeState:
    return await stop_node(lives.broker, request.node_id)


async def start(lives: Lives, request: NodeRequest) -> NodeState:
    return await start_node(lives.broker, request.node_id)


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/broker", "Version, addresses, nodes, data directories, clock.", Nothing, BrokerState, state),
    Call(
        "GET",
        "/v1/status",
        "All of it at a glance: the broker, its clock, pictures of its logs, groups with lag, faults.",
        StatusRequest,
        Status,
        whole,
        statuses=(404, 409),
        only_waits=True,
    ),
    Call("GET", "/v1/nodes", "The broker ids that the process plays, and which of them serve.", Nothing, Nodes, nodes),
    Call(
        "GET", "/v1/connections", "Clients that are connected.", Nothing, ConnectionList, connections, only_waits=True
    ),
    Call(
        "POST",
        "/v1/nodes/{node_id}/stop",
        "Stop one node: it hands over what it leads, ends its connections and listens no more.",
        NodeRequest,
        NodeState,
        stop,
        statuses=(404, 500),
    ),
    Call(
        "POST",
        "/v1/nodes/{node_id}/start",
        "Start a stopped node again, on the same ports.",
        NodeRequest,
        NodeState,
        start,
        statuses=(404, 500),
    ),
)
