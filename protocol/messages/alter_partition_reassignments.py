"""AlterPartitionReassignments (key 45, versions 0–1): give partitions other replicas (KIP-455).

1 lets the request forbid a change of the replication factor (KIP-860). Null replicas cancel a running reassignment.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartition:
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopic:
    name: String = ""
    partitions: tuple[ReassignablePartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: tuple[ReassignableTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopicResponse:
    name: String = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()
