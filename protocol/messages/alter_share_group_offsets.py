"""AlterShareGroupOffsets (key 91, version 0): change the positions of an empty share group in partitions (KIP-932)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32 = 0
    start_offset: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String = ""
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsRequest:
    group_id: String = ""
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()
