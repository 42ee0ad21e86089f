"""DescribeProducers (key 61, version 0): the known producers of a partition, and their open transactions (KIP-664)."""

from dataclasses import dataclass

from ..wire import Int16, Int32, Int64, String


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRequest:
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResponse:
    name: String = ""
    partitions: tuple[PartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()
