"""WriteTxnMarkers (key 27, versions 1–2): end transactions in partitions (KIP-98).

Sent by transaction coordinators, and by administrators who abort a transaction that hangs (KIP-664). 2 adds the
transaction version, which decides what epochs a marker may carry (KIP-890, KIP-1228).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int8, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarker:
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2)] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    name: String = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableTxnMarkerResult:
    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...] = ()
