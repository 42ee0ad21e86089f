"""ElectLeaders (key 43, versions 0–2): the preferred replica, or any live one, becomes leader (KIP-183, KIP-460).

1 adds unclean elections, 2 flexible encoding. Null partitions are all there are.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: Int32 = 60000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaElectionResult:
    topic: String = ""
    partition_result: tuple[PartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
