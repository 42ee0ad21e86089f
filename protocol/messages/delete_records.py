"""DeleteRecords (key 21, versions 0–2): move the log start offset of partitions forward (KIP-107).

2 adds flexible encoding. Offset -1 stands for the high watermark.
"""

from dataclasses import dataclass

from ..wire import Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartition:
    partition_index: Int32 = 0
    offset: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopic:
    name: String = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    name: String = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()
