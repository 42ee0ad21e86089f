"""InitProducerId (key 22, versions 0–6): give a producer its id and epoch (KIP-98).

2 adds flexible encoding, 3 lets a producer bump its own epoch (KIP-360), 4 PRODUCER_FENCED (KIP-588),
5 TRANSACTION_ABORTABLE (KIP-890), 6 two-phase commit (KIP-939), which Apache Kafka marks unstable.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[Bool, since(6)] = False
    keep_prepared_txn: Annotated[Bool, since(6)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1
