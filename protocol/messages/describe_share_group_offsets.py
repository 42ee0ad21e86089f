"""DescribeShareGroupOffsets (key 90, versions 0–1): positions of share groups in partitions (KIP-932).

1 adds the lag (KIP-1226).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequestGroup:
    group_id: String = ""
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsRequest:
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, since(1)] = -1
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()
