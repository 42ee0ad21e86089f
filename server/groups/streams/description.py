"""Descriptions of topologies that members of streams groups send for administrators (KIP-1331).

They are kept in memory, like those of Apache Kafka's InMemoryTopologyDescriptionPlugin, and only while the option for the plug-in
names it. The log has the topology epoch that a description was stored for. After a restart that epoch is still there, so no member is
asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
)
from ...coordination.jobs import Steps
from ..kinds import check_none

_SOURCE, _PROCESSOR, _SINK = 1, 2, 3
NAMES_MAX, CHARACTERS_MAX = 10_000, 1 << 20
"""Maximum number of names in a description, and of their characters. They remain in memory."""
_FIRST_WAIT_MS, _LONGEST_WAIT_MS = 30_000, 3_600_000


class DescriptionWait(NamedTuple):
    """The wait for a description that a member was asked for: no member is asked before `until_ms`, an elapsed time."""

    attempts: int
    until_ms: int


def next_wait(before: DescriptionWait | None, elapsed_ms: int) -> DescriptionWait | None:
    """Return the wait after a request to a member; None if the wait before has not ended. Each is twice as long, up to an hour."""
    if before is not None and elapsed_ms < before.until_ms:
        return None
    attempts = 0 if before is None else before.attempts + 1
    wait_ms = min(_FIRST_WAIT_MS << min(attempts, 16), _LONGEST_WAIT_MS)
    return DescriptionWait(attempts, elapsed_ms + wait_ms)


def check_update(request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
    """Check a StreamsGroupTopologyDescriptionUpdate, without regard to the group. Raises KafkaError INVALID_REQUEST."""
    check_none(
        (request.member_id == "", "MemberId can't be empty."),
        (request.group_id == "", "GroupId can't be empty."),
    )


def checked(description: TopologyDescription) -> Steps[TopologyDescription]:
    """Return a description as it is stored: each node has the fields of its type only, and each name once. A node a piece.

    Raises:
        KafkaError: INVALID_REQUEST: too many or too long names, a node of an unknown type, or a global store of other nodes than
            a source and a processor.
    """
    yield from _check_size(description)
    subtopologies = []
    for one in description.subtopologies:
        nodes = []
        for node in one.nodes:
            nodes.append(_node(node))
            yield
        subtopologies.append(replace(one, nodes=tuple(nodes)))
        yield
    stores = []
    for store in description.global_stores:
        source, processor = _node(store.source), _node(store.processor)
        if (source.node_type, processor.node_type) != (_SOURCE, _PROCESSOR):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Global store must be composed of a source and a processor node."
            )
        stores.append(TopologyDescriptionGlobalStore(source=source, processor=processor))
        yield
    return TopologyDescription(subtopologies=tuple(subtopologies), global_stores=tuple(stores))


def _check_size(description: TopologyDescription) -> Steps[None]:
    count = characters = 0
    for names in _names(description):
        count += len(names)
        characters += sum(map(len, names[:NAMES_MAX]))
        if count > NAMES_MAX or characters > CHARACTERS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Too many names in the description (limit {NAMES_MAX}, and {CHARACTERS_MAX} characters).",
            )
        yield


def _names(description: TopologyDescription) -> Iterator[tuple[str, ...]]:
    """Yield the names of each node, and the id of each subtopology."""
    nodes = [node for store in description.global_stores for node in (store.source, store.processor)]
    for one in description.subtopologies:
        yield (one.subtopology_id,)
        nodes += one.nodes
    for node in nodes:
        yield node.name, *node.source_topics, node.sink_topic or "", *node.stores, *node.successors


def _node(node: TopologyDescriptionNode) -> TopologyDescriptionNode:
    kind, successors = node.node_type, _once(node.successors)
    if kind == _SOURCE:
        topics = _once(node.source_topics)
        return TopologyDescriptionNode(name=node.name, node_type=kind, source_topics=topics, successors=successors)
    if kind == _PROCESSOR:
        stores = _once(node.stores)
        return TopologyDescriptionNode(name=node.name, node_type=kind, stores=stores, successors=successors)
    if kind == _SINK:
        topic = node.sink_topic
        return TopologyDescriptionNode(name=node.name, node_type=kind, sink_topic=topic, successors=successors)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown topology node type: {kind}")


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
