"""WriteShareGroupState (key 85, versions 0–1): the state of share partitions, from their leaders; between brokers (KIP-932).

1 adds the number of records whose delivery is complete (KIP-1226).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int8, Int16, Int32, Int64, String, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, since(1)] = -1
    state_batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateRequest:
    group_id: String = ""
    topics: tuple[WriteStateData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShareGroupStateResponse:
    results: tuple[WriteStateResult, ...] = ()
