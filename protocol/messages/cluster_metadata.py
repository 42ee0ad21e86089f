"""Records of the internal topic `__cluster_metadata`, in which Apache Kafka's controller stores the cluster's state (KIP-631).

A record's value starts with three unsigned varints: the version of this framing (1), the record's type and its version;
a message in flexible encoding follows. Only records about topics, configs, producer IDs, features, ACLs, credentials, tokens
and quotas are declared; `RECORD_TYPES` lists them by type.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from ..wire import ZERO_UUID, Bool, Bytes, Float64, Int8, Int16, Int32, Int64, String, Uuid, since, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: String = ""
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: tuple[Int32, ...] = ()
    isr: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[tuple[Uuid, ...], since(1)] = ()
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, since(2), tag(1)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, since(2), tag(2)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    resource_type: Int8 = 0
    resource_name: String = ""
    name: String = ""
    value: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Annotated[tuple[Int32, ...] | None, tag(0)] = None
    leader: Annotated[Int32, tag(1)] = -2
    replicas: Annotated[tuple[Int32, ...] | None, tag(2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, tag(3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, tag(4)] = None
    leader_recovery_state: Annotated[Int8, tag(5)] = -1
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, since(2), tag(6)] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, since(2), tag(7)] = None
    directories: Annotated[tuple[Uuid, ...] | None, since(1), tag(8)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    name: String = ""
    feature_level: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    owner: String = ""
    requester: String = ""
    renewers: tuple[String, ...] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    token_id: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    name: String = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    name: String = ""
    mechanism: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    entity_type: String = ""
    entity_name: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    entity: tuple[EntityData, ...] = ()
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 0
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    name: Annotated[String | None, tag(0)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    reason: Annotated[String | None, tag(0)] = None


class RecordType(NamedTuple):
    """A declared record and its highest version in Apache Kafka 4.4.0."""

    record: type[Any]
    version_max: int


FRAME_VERSION = 1

RECORD_TYPES: dict[int, RecordType] = {
    2: RecordType(TopicRecord, 0),
    3: RecordType(PartitionRecord, 2),
    4: RecordType(ConfigRecord, 0),
    5: RecordType(PartitionChangeRecord, 2),
    9: RecordType(RemoveTopicRecord, 0),
    10: RecordType(DelegationTokenRecord, 0),
    11: RecordType(UserScramCredentialRecord, 0),
    12: RecordType(FeatureLevelRecord, 0),
    14: RecordType(ClientQuotaRecord, 0),
    15: RecordType(ProducerIdsRecord, 0),
    18: RecordType(AccessControlEntryRecord, 0),
    19: RecordType(RemoveAccessControlEntryRecord, 0),
    22: RecordType(RemoveUserScramCredentialRecord, 0),
    23: RecordType(BeginTransactionRecord, 0),
    24: RecordType(EndTransactionRecord, 0),
    25: RecordType(AbortTransactionRecord, 0),
    26: RecordType(RemoveDelegationTokenRecord, 0),
}
