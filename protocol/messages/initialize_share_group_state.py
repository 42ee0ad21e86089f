"""InitializeShareGroupState (key 83, version 0): begin the state of share partitions; between brokers (KIP-932)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int32, Int64, String, Uuid
from .write_share_group_state import PartitionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateRequest:
    group_id: String = ""
    topics: tuple[InitializeStateData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeShareGroupStateResponse:
    results: tuple[InitializeStateResult, ...] = ()
