"""ShareFetch (key 78, versions 1–2): acquire records for a member of a share group, and acknowledge others (KIP-932).

2 adds the acquire mode (KIP-1206) and renewals of acquisition locks (KIP-1222).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int8, Int16, Int32, Int64, Records, String, Uuid, since


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: tuple[Int8, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchRequest:
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, since(2)] = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquiredRecords:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    # As in Kafka, the only default is null, which no version allows: a response without an error must set this field.
    records: Records = None  # type: ignore[assignment]
    acquired_records: tuple[AcquiredRecords, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchableTopicResponse:
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
