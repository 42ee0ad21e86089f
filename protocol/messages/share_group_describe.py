"""ShareGroupDescribe (key 77, version 1): members and assignments of share groups (KIP-932)."""

from dataclasses import dataclass

from ..wire import Bool, Int16, Int32, String
from .consumer_group_describe import TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest:
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    assignment: Assignment = Assignment()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -2147483648


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()
