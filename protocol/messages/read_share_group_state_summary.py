"""ReadShareGroupStateSummary (key 87, versions 0–1): where the state of share partitions begins; between brokers (KIP-932).

1 adds the number of records whose delivery is complete (KIP-1226).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid, since
from .read_share_group_state import PartitionData


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryData:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryRequest:
    group_id: String = ""
    topics: tuple[ReadStateSummaryData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, since(1)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateSummaryResult:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateSummaryResponse:
    results: tuple[ReadStateSummaryResult, ...] = ()
