"""OffsetForLeaderEpoch (key 23, versions 2–4): the end offset of a leader epoch; consumers detect truncation by it (KIP-320).

3 adds the replica id (-2: a debugging consumer), 4 flexible encoding.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopic:
    topic: String = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, since(3)] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    topic: String = ""
    partitions: tuple[EpochEndOffset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()
