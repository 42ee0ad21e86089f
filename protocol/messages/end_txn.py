"""EndTxn (key 26, versions 0–5): commit or abort a producer's transaction (KIP-98).

2 adds PRODUCER_FENCED (KIP-588), 3 flexible encoding, 4 TRANSACTION_ABORTABLE, 5 a new epoch for the producer at every
end (KIP-890).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, since(5)] = -1
    producer_epoch: Annotated[Int16, since(5)] = -1
