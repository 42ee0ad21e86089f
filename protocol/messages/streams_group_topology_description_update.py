"""StreamsGroupTopologyDescriptionUpdate (key 93, version 0): a member of a streams group describes its topology (KIP-1331)."""

from dataclasses import dataclass

from ..wire import Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDescriptionNode:
    name: String = ""
    node_type: Int8 = 0
    source_topics: tuple[String, ...] = ()
    sink_topic: String | None = None
    stores: tuple[String, ...] = ()
    successors: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDescriptionSubtopology:
    subtopology_id: String = ""
    nodes: tuple[TopologyDescriptionNode, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = TopologyDescriptionNode()
    processor: TopologyDescriptionNode = TopologyDescriptionNode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDescription:
    subtopologies: tuple[TopologyDescriptionSubtopology, ...] = ()
    global_stores: tuple[TopologyDescriptionGlobalStore, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: String = ""
    member_id: String = ""
    topology_epoch: Int32 = 0
    topology_description: TopologyDescription = TopologyDescription()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
