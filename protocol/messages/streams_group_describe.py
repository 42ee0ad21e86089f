"""StreamsGroupDescribe (key 89, versions 0–1): topology, members and tasks of streams groups (KIP-1071).

1 adds the description of the topology (KIP-1331) and the name of the assignor (KIP-1357).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int8, Int16, Int32, String, since
from .streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from .streams_group_topology_description_update import TopologyDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest:
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False
    include_topology_description: Annotated[Bool, since(1)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: String = ""
    source_topics: tuple[String, ...] = ()
    repartition_sink_topics: tuple[String, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648
    topology_description: Annotated[TopologyDescription | None, since(1)] = None
    topology_description_status: Annotated[Int8, since(1)] = 0
    assignor_name: Annotated[String | None, since(1)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()
