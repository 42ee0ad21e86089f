"""Records of the internal topic `__transaction_state`: key and value as Kafka's transaction coordinator writes them.

Each starts with an int16: in a key it is the type of the record (0, the only one), in a value the version of the schema.
Version 1 has tagged fields, for transaction versions 1 and 2 (KIP-915, KIP-890).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int16, Int32, Int64, String, since, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey:
    transactional_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsSchema:
    topic: String = ""
    partition_ids: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, since(1), tag(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tag(1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, since(1), tag(3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    transaction_partitions: tuple[PartitionsSchema, ...] | None = ()
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, since(1), tag(2)] = 0
