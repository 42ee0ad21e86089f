"""ConsumerGroupDescribe (key 69, versions 0–1): state, members and assignments of consumer groups (KIP-848).

1 adds the group protocol of each member (KIP-1099).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: String | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, since(1)] = -1


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
    authorized_operations: Int32 = -0x80000000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()
