"""The broker's nodes, as one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...control.broker_state import NodeState, node_states
from ..call import Call, Lives, Nothing


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, in id order."""

    nodes: tuple[NodeState, ...]


async def nodes(lives: Lives, request: Nothing) -> Nodes:
    return Nodes(node_states(lives.broker))


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/nodes", "The broker ids that the process plays, and which of them serve.", Nothing, Nodes, nodes),
)
