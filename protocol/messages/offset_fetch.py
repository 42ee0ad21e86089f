"""OffsetFetch (key 9, versions 1–10): a group's committed positions.

2 lets null stand for all topics and adds an error for the whole group, 5 the leader epoch (KIP-320), 6 flexible
encoding, 7 waits for pending transactional commits (KIP-447), 8 asks for several groups at once (KIP-709), 9 admits the
new consumer group protocol (KIP-848), 10 topic ids in place of names.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int16, Int32, Int64, String, Uuid, nullable_since, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: String = ""
    member_id: Annotated[String | None, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    group_id: Annotated[String, until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, until(7), nullable_since(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], since(8)] = ()
    require_stable: Annotated[Bool, since(7)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    name: String = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    group_id: String = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], until(7)] = ()
    error_code: Annotated[Int16, since(2), until(7)] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], since(8)] = ()
