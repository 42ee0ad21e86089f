"""Descriptions of topologies that members send: what a coordinator stores, and what it refuses."""

from __future__ import annotations

from ottla.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

SOURCE = TopologyDescriptionNode(name="in", node_type=1, source_topics=("alpha", "beta", "alpha"), successors=("it",))
PROCESSOR = TopologyDescriptionNode(name="it", node_type=2, stores=("kept", "kept"), successors=("out", "it", "out"))
SINK = TopologyDescriptionNode(name="out", node_type=3, sink_topic="gamma", stores=("none",), source_topics=("none",))
DYNAMIC_SINK = TopologyDescriptionNode(name="out", node_type=3)


def _description(
    *nodes: TopologyDescriptionNode, stores: int = 0, last: TopologyDescriptionNode = PROCESSOR
) -> TopologyDescription:
    return TopologyDescription(
        subtopologies=(
            TopologyDescriptionSubtopology(subtopology_id="0", nodes=nodes),
            TopologyDescriptionSubtopology(subtopology_id="1"),
        ),
        global_stores=(TopologyDescriptionGlobalStore(source=SOURCE, processor=last),) * stores,
    )


DESCRIPTIONS = {
    "one": _description(SOURCE, PROCESSOR, SINK),
    "stores": _description(SOURCE, DYNAMIC_SINK, stores=2),
    "nothing": TopologyDescription(),
    "odd node": _description(TopologyDescriptionNode(name="x", node_type=4)),
    "odd store": _description(stores=1, last=SINK),
}
"""Name -> description; the odd ones are refused."""
