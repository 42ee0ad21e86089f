"""AddOffsetsToTxn (key 25, versions 0–4): put a group's committed offsets into a producer's transaction (KIP-98).

2 adds PRODUCER_FENCED (KIP-588), 3 flexible encoding, 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from dataclasses import dataclass

from ..wire import Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
