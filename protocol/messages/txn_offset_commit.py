"""TxnOffsetCommit (key 28, versions 0–6): commit a group's offsets as part of a transaction (KIP-98).

2 adds the leader epoch (KIP-320), 3 the consumer's generation, member and instance id (KIP-447) and flexible encoding,
4 TRANSACTION_ABORTABLE, 5 adds the group's partition of `__consumer_offsets` to the transaction by itself (KIP-890),
6 has topic ids in place of names (KIP-1319).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Int16, Int32, Int64, String, Uuid, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    name: Annotated[String, until(5)] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    name: Annotated[String, until(5)] = ""
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
