"""StreamsGroupHeartbeat (key 88, versions 0–1): a member of a streams group joins, is alive, or leaves (KIP-1071).

1 asks the member for a description of its topology (KIP-1331), and has a longer lag.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int8, Int16, Int32, Int64, String, UInt16, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    key: String = ""
    value: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    host: String = ""
    port: UInt16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOffset:
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds:
    subtopology_id: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    source_topics: tuple[Int16, ...] = ()
    source_topic_regex: tuple[Int16, ...] = ()
    repartition_source_topics: tuple[Int16, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: String = ""
    source_topics: tuple[String, ...] = ()
    source_topic_regex: tuple[String, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[String, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    status_code: Int8 = 0
    status_detail: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointToPartitions:
    user_endpoint: Endpoint = Endpoint()
    active_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag_legacy: Annotated[Int32, until(0)] = 0
    task_offset_interval_ms: Int32 = 0
    acceptable_recovery_lag: Annotated[Int64, since(1)] = -1
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    topology_description_required: Annotated[Bool, since(1)] = False
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None
