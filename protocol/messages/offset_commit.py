"""OffsetCommit (key 8, versions 2–10): store a group's position in partitions.

5 drops the retention time (KIP-211), 6 adds the leader epoch (KIP-320), 7 static members (KIP-345), 8 flexible
encoding, 9 admits the new consumer group protocol (KIP-848), 10 topic ids in place of names.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    committed_metadata: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(7)] = None
    retention_time_ms: Annotated[Int64, until(4)] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()
