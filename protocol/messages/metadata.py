"""Metadata (key 3, versions 0–13): the brokers, and topics with their partitions and leaders.

"All topics" is an empty array in version 0 and null from 1 on, where empty means none. 4 lets the client forbid
auto-creation (KIP-4), 5 names offline replicas (KIP-112), 7 leader epochs (KIP-320), 8 authorized operations (KIP-430),
9 flexible encoding, 10 topic ids in responses, 11 leaves the cluster's operations to DescribeCluster (KIP-700),
12 asks by topic id (KIP-516), 13 has an error for the whole response (KIP-1102).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int16, Int32, String, Uuid, nullable_since, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[String | None, nullable_since(10)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest:
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, nullable_since(1)] = ()
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseBroker:
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: Annotated[String | None, since(1)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: Annotated[String | None, nullable_since(12)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[Bool, since(1)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, since(8)] = -0x80000000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[String | None, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, since(8), until(10)] = -0x80000000
    error_code: Annotated[Int16, since(13)] = 0
