"""TxnOffsetCommit (key 28, versions 0–5): commit a group's offsets as part of a transaction (KIP-98).

2 adds the leader epoch (KIP-320), 3 the consumer's generation, member and instance id (KIP-447) and flexible encoding,
4 TRANSACTION_ABORTABLE, 5 adds the group's partition of `__consumer_offsets` to the transaction by itself (KIP-890).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    name: String = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    name: String = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
