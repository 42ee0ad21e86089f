"""DescribeTransactions (key 65, version 0): what the coordinator knows of transactional ids (KIP-664)."""

from dataclasses import dataclass

from ..wire import Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsRequest:
    transactional_ids: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicData:
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: tuple[TopicData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...] = ()
