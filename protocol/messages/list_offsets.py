"""ListOffsets (key 2, versions 1–11): the offset for a timestamp, or for one of the special timestamps below.

2 adds the isolation level (KIP-98), 4 leader epochs (KIP-320), 6 flexible encoding, 7 the maximal timestamp (-3,
KIP-734), 8 the earliest local offset (-4, KIP-405), 9 the last tiered one (-5, KIP-1005), 10 a time limit for remote
look-ups (KIP-1075), 11 the earliest offset waiting for upload (-6, KIP-1023).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    name: String = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, since(10)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    name: String = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()
