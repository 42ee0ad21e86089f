"""DescribeQuorum (key 55, versions 0–2): voters and observers of the metadata log (KIP-595).

1 adds the times when a replica last fetched and was last caught up (KIP-836), 2 messages, directories and the controllers'
listeners (KIP-853).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, UInt16, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition_index: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    topic_name: String = ""
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumRequest:
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQuorum:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuorum:
    topic_name: String = ""
    partitions: tuple[PartitionQuorum, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    name: String = ""
    host: String = ""
    port: UInt16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    node_id: Annotated[Int32, since(2)] = 0
    listeners: Annotated[tuple[Listener, ...], since(2)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(2)] = ""
    topics: tuple[TopicQuorum, ...] = ()
    nodes: Annotated[tuple[Node, ...], since(2)] = ()
