"""Records of `__consumer_offsets` that store share groups (KIP-932), one class for each key and each value.

A key begins with its type (`RECORD_TYPES`), a value with its version, which is 0 for all; values are in flexible encoding.
Type 9, which brokers before 4.1 wrote in early access, no longer exists.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int8, Int32, Int64, String, Uuid, tag
from .consumer_group_heartbeat import TopicPartitions
from .consumer_group_log import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue:
    rack_id: String | None = ""
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentKey:
    group_id: String = ""
    member_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataKey:
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionsInfo:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()


RECORD_TYPES = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}
"""Key type -> classes of key and value."""
