"""Records of `__consumer_offsets` that store consumer groups (KIP-848), one class for each key and each value.

A key begins with its type (`RECORD_TYPES`), a value with its version, which is 0 for all; values are in flexible
encoding. Type 4 comes from brokers before 4.1 (KIP-1101); newer ones only delete it.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bytes, Int8, Int32, Int64, String, Uuid, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, tag(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    partition: Int32 = 0
    racks: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    topics: tuple[TopicMetadata, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: String = ""
    metadata: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    instance_id: String | None = ""
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: String | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: String | None = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tag(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey:
    group_id: String = ""
    regular_expression: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    topics: tuple[String, ...] = ()
    version: Int64 = 0
    timestamp: Int64 = 0


RECORD_TYPES = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Key type -> classes of key and value."""
