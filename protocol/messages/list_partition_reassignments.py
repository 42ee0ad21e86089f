"""ListPartitionReassignments (key 46, version 0): the changes of replicas that are under way (KIP-455)."""

from dataclasses import dataclass

from ..wire import Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    name: String = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingPartitionReassignment:
    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OngoingTopicReassignment:
    name: String = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()
