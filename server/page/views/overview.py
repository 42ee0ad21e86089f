"""The first page: where the broker is, its clock, nodes, data directories, and how far topics are compacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...broker.broker import Broker
from ...control.broker_state import BrokerState, DataDirState, NodeState, broker_state
from ..section import Page, Row, Section
from . import compaction


@dataclass(frozen=True, slots=True)
class Facts:
    """What rarely changes."""

    version: str
    profile: str
    cluster_id: str
    bootstrap: str
    emulate: str | None
    data_dirs: tuple[DataDirState, ...]


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """See the module."""
    state = broker_state(broker)
    return Page(
        "Overview",
        "/",
        (
            Section("facts", "facts", _facts(state)),
            await compaction.of_all(broker),
            Section("nodes", "nodes", None, tuple(map(_node, state.nodes))),
        ),
    )


def _facts(state: BrokerState) -> Facts:
    return Facts(state.version, state.profile, state.cluster_id, state.bootstrap, state.emulate, state.data_dirs)


def _node(node: NodeState) -> Row:
    return Row(f"node-{node.node_id}", node)
