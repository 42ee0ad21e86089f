"""ConsumerGroupHeartbeat (key 68, versions 0–1): a member of a consumer group joins, is alive, or leaves (KIP-848).

1 adds subscription by regular expression, and member ids made by the client (KIP-1082).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, String, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: Annotated[String | None, since(1)] = None
    server_assignor: String | None = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
