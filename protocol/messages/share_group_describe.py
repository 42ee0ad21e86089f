"""ShareGroupDescribe (key 77, version 1): members and assignments of share groups (KIP-932)."""

from dataclasses import dataclass

from ..wire import Bool, Int16, Int32, String
from .consumer_group_describe import ConsumerGroupDescribeTopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest:
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeAssignment:
    topic_partitions: tuple[ConsumerGroupDescribeTopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeMember:
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    assignment: ShareGroupDescribeAssignment = ShareGroupDescribeAssignment()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[ShareGroupDescribeMember, ...] = ()
    authorized_operations: Int32 = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[ShareGroupDescribedGroup, ...] = ()
