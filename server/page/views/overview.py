"""The first page: addresses, clock, nodes, data directories, and compaction progress of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...broker.broker import Broker
from ...control.broker_state import BrokerState, DataDirState, NodeState, broker_state
from ...control.pictures import all_pictures
from ..section import Page, Row, Section
from . import compaction

LOGS_MAX = 200
BARS_MAX = 40
"""Maximum number of bars of a log in a list."""


@dataclass(frozen=True, slots=True)
class OverviewFacts:
    """Facts that rarely change."""

    version: str
    profile: str
    cluster_id: str
    bootstrap: str
    emulate: str | None
    data_dirs: tuple[DataDirState, ...]


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page; see the module."""
    state = broker_state(broker)
    return Page(
        "Overview",
        "/",
        (
            Section("facts", "facts", _facts(state)),
            await compaction.all_topics_section(broker),
            await _logs(broker),
            Section("nodes", "nodes", None, tuple(map(_node, state.nodes))),
        ),
    )


async def _logs(broker: Broker) -> Section:
    """Return the section with a picture of each log of clients' topics, compacted ones first."""
    taken = await all_pictures(broker, bars_max=BARS_MAX, most=LOGS_MAX)
    count = sum(len(topic.partitions) for topic in broker.services.topics if not topic.is_internal)
    rows = tuple(Row(f"log-{each.name}", each) for each in taken)
    return Section("logs", "logs", count - len(rows), rows)


def _facts(state: BrokerState) -> OverviewFacts:
    return OverviewFacts(
        state.version, state.profile, state.cluster_id, state.bootstrap, state.emulate, state.data_dirs
    )


def _node(node: NodeState) -> Row:
    return Row(f"node-{node.node_id}", node)
