"""AddPartitionsToTxn (key 24, versions 0–5): put partitions into a producer's transaction (KIP-98).

2 adds PRODUCER_FENCED (KIP-588), 3 flexible encoding, 4 several transactions at once and a query whether
partitions are in them (KIP-890), 5 TRANSACTION_ABORTABLE. Clients send up to 3, Kafka's brokers 4 and 5.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, Int64, String, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    name: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    transactional_id: Annotated[String, since(4)] = ""
    producer_id: Annotated[Int64, since(4)] = 0
    producer_epoch: Annotated[Int16, since(4)] = 0
    verify_only: Annotated[Bool, since(4)] = False
    topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], since(4)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[String, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    name: String = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    transactional_id: Annotated[String, since(4)] = ""
    topic_results: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], since(4)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], since(4)] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], until(3)] = ()
