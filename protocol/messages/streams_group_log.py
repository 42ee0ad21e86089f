"""Records of `__consumer_offsets` that store streams groups (KIP-1071), one class for each key and each value.

A key begins with its type (`RECORD_TYPES`), a value with its version, which is 0 for all; values are in flexible
encoding.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int32, Int64, String, tag
from .streams_group_heartbeat import Endpoint, KeyValue, Subtopology, TaskIds


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAssignmentConfig:
    key: String = ""
    value: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, tag(0)] = -1
    last_assignment_configs: Annotated[tuple[LastAssignmentConfig, ...] | None, tag(1)] = None
    stored_description_topology_epoch: Annotated[Int32, tag(2)] = -1
    failed_description_topology_epoch: Annotated[Int32, tag(3)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataValue:
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTaskIds:
    """Owned tasks; only active tasks have epochs."""

    subtopology_id: String = ""
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tag(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: tuple[OwnedTaskIds, ...] = ()
    standby_tasks: tuple[OwnedTaskIds, ...] = ()
    warmup_tasks: tuple[OwnedTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyValue:
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] = ()


RECORD_TYPES = {
    17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}
"""Key type -> classes of key and value."""
