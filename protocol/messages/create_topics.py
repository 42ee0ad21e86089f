"""CreateTopics (key 19, versions 2–7).

4 makes partition count and replication factor optional: -1 takes the broker's defaults (KIP-464). 5 adds flexible
encoding and the new topic's configs (KIP-525), 6 THROTTLING_QUOTA_EXCEEDED (KIP-599), 7 the topic id (KIP-516).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import ZERO_UUID, Bool, Int8, Int16, Int32, String, Uuid, since, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableReplicaAssignment:
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfig:
    name: String = ""
    value: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicConfigs:
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopicResult:
    name: String = ""
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, since(5), tag(0)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...] = ()
