"""DeleteShareGroupState (key 86, version 0): forget the state of share partitions; between brokers (KIP-932)."""

from dataclasses import dataclass

from ..wire import ZERO_UUID, Int32, String, Uuid
from .write_share_group_state import PartitionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateRequest:
    group_id: String = ""
    topics: tuple[DeleteStateData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteShareGroupStateResponse:
    results: tuple[DeleteStateResult, ...] = ()
