"""Fetch (key 1, versions 4–18): read record batches of partitions.

7 adds incremental fetch sessions (KIP-227), 9 fencing by leader epoch (KIP-320), 10 allows zstd (KIP-110), 11 the
client's rack (KIP-392), 12 flexible encoding and truncation detection (KIP-595), 13 topic ids in place of names
(KIP-516), 14 OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405), 15 moves the replica id into a tag (KIP-903), 16 node endpoints
(KIP-951), 17 and 18 fields of followers only (KIP-853, KIP-1166).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Uuid, since, tag, until


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[Uuid, since(17), tag(0)] = ZERO_UUID
    high_watermark: Annotated[Int64, since(18), tag(1)] = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[FetchPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    cluster_id: Annotated[String | None, since(12), tag(0)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    rack_id: Annotated[String, since(11)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    producer_id: Int64 = 0
    first_offset: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchableTopicResponse:
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEndpoint:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tag(0)] = ()
