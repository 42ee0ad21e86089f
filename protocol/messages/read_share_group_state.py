"""ReadShareGroupState (key 84, version 0): the state of share partitions, for their leaders; between brokers (KIP-932)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid
from .write_share_group_state import StateBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateRequest:
    group_id: String = ""
    topics: tuple[ReadStateData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadShareGroupStateResponse:
    results: tuple[ReadStateResult, ...] = ()
