"""Produce (key 0, versions 3–13): append record batches to partitions.

Version 3 is Kafka 4's lowest; 0–2 are advertised nevertheless, because librdkafka refuses a broker that does not list
them (KAFKA-18659). 5 adds the log start offset, 7 allows zstd (KIP-110), 8 errors for single records (KIP-467),
9 flexible encoding, 10 the current leader and its endpoint as tags (KIP-951), 11 TRANSACTION_ABORTABLE (KIP-890),
12 joins partitions to a transaction by producing to them (KIP-890 part 2), 13 topic ids in place of names (KIP-516).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, Records, String, Uuid, since, tag, until


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceData:
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchIndexAndErrorMessage:
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProduceResponse:
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], since(8)] = ()
    error_message: Annotated[String | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceResponse:
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tag(0)] = ()
