"""Questions: at least one for every API, about resources that exist and resources that do not, in every version.

A question that would change the scene is written so that it only passes the checks of rights. It validates without executing,
or it names a producer, a member or an offset that does not exist; the error that says so shows that rights let it through.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.protocol.apis import Api
from ottla.storage.disk.checkpoints import uuid_text
from support.authorization.messages import BY_NAME
from support.authorization.rights import OWNER
from support.authorization.scene import FRESH, MEMBERS, MISSING, OTHER, THERE, TIMEOUT_MS, VICTIM
from support.logs.batches import batch

Values: TypeAlias = Mapping[str, Any]
Ids: TypeAlias = Mapping[str, bytes]

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of resources that have configs."""
NO_PRODUCER = 4_000_000
TWO_TOPICS = (THERE, OTHER, MISSING)
GROUPS = (THERE, MEMBERS, MISSING)


class Question(NamedTuple):
    api: Api
    about: str
    values: Callable[[int, Ids], Values]
    """Return the values of the request in a version."""
    versions: range
    changes: str
    """The topic that a user with the right creates or deletes; "" if none."""

    @property
    def id(self) -> str:
        return f"{self.api.name} {self.about}".strip()


QUESTIONS: list[Question] = []


def _question(
    name: str, about: str = "", *, since: int = 0, until: int = 1_000, changes: str = ""
) -> Callable[[Callable[[int, Ids], Values]], Callable[[int, Ids], Values]]:
    def add(values: Callable[[int, Ids], Values]) -> Callable[[int, Ids], Values]:
        api = BY_NAME.get(name)
        if api is None:
            return values  # not spoken yet
        low, high = api.versions
        QUESTIONS.append(Question(api, about, values, range(max(low, since), min(high, until) + 1), changes))
        return values

    return add


def asked(questions: list[Question] | None = None) -> Iterator[tuple[Question, int]]:
    """Yield every question in each of its versions."""
    for question in QUESTIONS if questions is None else questions:
        for version in question.versions:
            yield question, version


def _named(name: str, ids: Ids, *, by_id: bool, field: str = "name") -> dict[str, Any]:
    return {"topic_id": ids[name]} if by_id else {field: name}


# Records


def _produce(version: int, ids: Ids, **options: Any) -> Values:
    records = bytes(batch(("k", "v"), timestamp=1_700_000_000_000, **options))
    return {
        "transactional_id": THERE if options else None,
        "acks": -1,
        "timeout_ms": TIMEOUT_MS,
        "topic_data": [
            {
                **_named(name, ids, by_id=version >= 13),
                "partition_data": [{"index": 0, "records": memoryview(records)}],
            }
            for name in (OTHER, MISSING)
        ],
    }


@_question("Produce")
def _(version: int, ids: Ids) -> Values:
    return _produce(version, ids)


@_question("Produce", "in a transaction")
def _(version: int, ids: Ids) -> Values:
    return _produce(version, ids, producer_id=NO_PRODUCER, transactional=True)


def _fetch(version: int, ids: Ids, **more: Any) -> Values:
    return {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1_000_000,
        "topics": [
            {
                **_named(name, ids, by_id=version >= 13, field="topic"),
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}],
            }
            for name in TWO_TOPICS
        ],
        **more,
    }


@_question("Fetch")
def _(version: int, ids: Ids) -> Values:
    return _fetch(version, ids)


@_question("Fetch", "as a broker")
def _(version: int, ids: Ids) -> Values:
    if version < 15:
        return _fetch(version, ids, replica_id=7)
    return _fetch(version, ids, replica_state={"replica_id": 7, "replica_epoch": -1})


@_question("ListOffsets")
def _(version: int, ids: Ids) -> Values:
    return {
        "replica_id": -1,
        "topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in TWO_TOPICS],
    }


@_question("OffsetForLeaderEpoch")
def _(version: int, ids: Ids) -> Values:
    return {
        "replica_id": -1,
        "topics": [
            {"topic": name, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            for name in TWO_TOPICS
        ],
    }


@_question("DeleteRecords")
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in TWO_TOPICS],
        "timeout_ms": TIMEOUT_MS,
    }


@_question("DescribeProducers")
def _(version: int, ids: Ids) -> Values:
    return {"topics": [{"name": name, "partition_indexes": [0]} for name in TWO_TOPICS]}


# Topics


@_question("Metadata", "of all topics")
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [] if version == 0 else None,
        "include_cluster_authorized_operations": 8 <= version <= 10,
        "include_topic_authorized_operations": version >= 8,
    }


@_question("Metadata", "by name", since=4)
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [{"name": name} for name in TWO_TOPICS],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": 8 <= version <= 10,
        "include_topic_authorized_operations": version >= 8,
    }


@_question("Metadata", "by id", since=12)
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [{"name": None, "topic_id": ids[name]} for name in TWO_TOPICS],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }


@_question("Metadata", "of a topic that may be made", changes=FRESH)
def _(version: int, ids: Ids) -> Values:
    return {"topics": [{"name": FRESH}], "allow_auto_topic_creation": True}


@_question("DescribeTopicPartitions", "of all topics")
def _(version: int, ids: Ids) -> Values:
    return {"topics": [], "response_partition_limit": 100}


@_question("DescribeTopicPartitions", "by name")
def _(version: int, ids: Ids) -> Values:
    return {"topics": [{"name": name} for name in sorted(TWO_TOPICS)], "response_partition_limit": 100}


@_question("DescribeCluster")
def _(version: int, ids: Ids) -> Values:
    return {"include_cluster_authorized_operations": True, "endpoint_type": 1}


@_question("DescribeLogDirs")
def _(version: int, ids: Ids) -> Values:
    return {"topics": [{"topic": THERE, "partitions": [0]}]}


@_question("ApiVersions")
def _(version: int, ids: Ids) -> Values:
    return {"client_software_name": "a-client", "client_software_version": "1"} if version >= 3 else {}


@_question("CreateTopics")
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1} for name in (THERE, MISSING, "wrong name")
        ],
        "timeout_ms": TIMEOUT_MS,
        "validate_only": True,
    }


@_question("CreatePartitions")
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [{"name": name, "count": 4, "assignments": None} for name in TWO_TOPICS],
        "timeout_ms": TIMEOUT_MS,
        "validate_only": True,
    }


@_question("DeleteTopics", "by name", changes=VICTIM)
def _(version: int, ids: Ids) -> Values:
    if version < 6:
        return {"topic_names": [VICTIM, MISSING], "timeout_ms": TIMEOUT_MS}
    return {"topics": [{"name": name} for name in (VICTIM, MISSING)], "timeout_ms": TIMEOUT_MS}


@_question("DeleteTopics", "by id", since=6, changes=VICTIM)
def _(version: int, ids: Ids) -> Values:
    return {
        "topics": [{"name": None, "topic_id": ids[name]} for name in (VICTIM, MISSING)],
        "timeout_ms": TIMEOUT_MS,
    }


@_question("ElectLeaders")
def _(version: int, ids: Ids) -> Values:
    return {
        "election_type": 0,
        "topic_partitions": [{"topic": name, "partitions": [0]} for name in TWO_TOPICS],
        "timeout_ms": TIMEOUT_MS,
    }


@_question("AlterPartitionReassignments")
def _(version: int, ids: Ids) -> Values:
    return {
        "timeout_ms": TIMEOUT_MS,
        "topics": [{"name": name, "partitions": [{"partition_index": 0, "replicas": None}]} for name in TWO_TOPICS],
    }


@_question("ListPartitionReassignments")
def _(version: int, ids: Ids) -> Values:
    return {"timeout_ms": TIMEOUT_MS, "topics": [{"name": THERE, "partition_indexes": [0]}]}


# Configs


_RESOURCES = (
    (TOPIC, THERE),
    (TOPIC, MISSING),
    (BROKER, ""),
    (BROKER, "0"),
    (GROUP, THERE),
    (CLIENT_METRICS, THERE),
    (BROKER_LOGGER, "0"),
)


@_question("DescribeConfigs")
def _(version: int, ids: Ids) -> Values:
    return {
        "resources": [
            {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in _RESOURCES
        ]
    }


@_question("ListConfigResources")
def _(version: int, ids: Ids) -> Values:
    return {"resource_types": []}


_A_CONFIG = {
    TOPIC: ("retention.ms", "60000"),
    BROKER: ("log.retention.ms", "60000"),
    BROKER_LOGGER: ("root", "INFO"),
    GROUP: ("consumer.session.timeout.ms", "50000"),
    CLIENT_METRICS: ("interval.ms", "60000"),
}


@_question("AlterConfigs")
def _(version: int, ids: Ids) -> Values:
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": _A_CONFIG[kind][0], "value": _A_CONFIG[kind][1]}],
            }
            for kind, name in _RESOURCES
        ],
        "validate_only": True,
    }


@_question("IncrementalAlterConfigs")
def _(version: int, ids: Ids) -> Values:
    return {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": _A_CONFIG[kind][0], "config_operation": 0, "value": _A_CONFIG[kind][1]}],
            }
            for kind, name in _RESOURCES
        ],
        "validate_only": True,
    }


# The cluster


@_question("DescribeQuorum")
def _(version: int, ids: Ids) -> Values:
    return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}


@_question("UpdateFeatures")
def _(version: int, ids: Ids) -> Values:
    return {
        "timeout_ms": TIMEOUT_MS,
        "feature_updates": [{"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1}],
        "validate_only": True,
    }


@_question("UnregisterBroker")
def _(version: int, ids: Ids) -> Values:
    return {"broker_id": 99}


@_question("UnregisterController")
def _(version: int, ids: Ids) -> Values:
    return {"controller_id": 99}


@_question("AddRaftVoter")
def _(version: int, ids: Ids) -> Values:
    return {
        "cluster_id": None,
        "timeout_ms": TIMEOUT_MS,
        "voter_id": 99,
        "voter_directory_id": bytes(range(16)),
        "listeners": [],
    }


@_question("RemoveRaftVoter")
def _(version: int, ids: Ids) -> Values:
    return {"cluster_id": None, "voter_id": 99, "voter_directory_id": bytes(range(16))}


@_question("AlterReplicaLogDirs")
def _(version: int, ids: Ids) -> Values:
    return {"dirs": [{"path": "/nowhere", "topics": [{"name": name, "partitions": [0]} for name in TWO_TOPICS]}]}


# Access control, logins and quotas


_A_FILTER = {
    "resource_type_filter": 2,
    "resource_name_filter": "no-such-topic",
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@_question("DescribeAcls")
def _(version: int, ids: Ids) -> Values:
    return _A_FILTER


@_question("CreateAcls")
def _(version: int, ids: Ids) -> Values:
    return {
        "creations": [
            {
                "resource_type": 4,
                "resource_name": "not-the-cluster",
                "resource_pattern_type": 3,
                "principal": "User:none-such",
                "host": "*",
                "operation": 3,
                "permission_type": 3,
            }
        ]
    }


@_question("DeleteAcls")
def _(version: int, ids: Ids) -> Values:
    return {"filters": [_A_FILTER]}


@_question("DescribeUserScramCredentials")
def _(version: int, ids: Ids) -> Values:
    return {"users": [{"name": "none-such"}]}


@_question("AlterUserScramCredentials")
def _(version: int, ids: Ids) -> Values:
    return {"deletions": [{"name": "none-such", "mechanism": 1}], "upsertions": []}


@_question("DescribeClientQuotas")
def _(version: int, ids: Ids) -> Values:
    return {"components": [{"entity_type": "user", "match_type": 0, "match": "none-such"}], "strict": True}


@_question("AlterClientQuotas")
def _(version: int, ids: Ids) -> Values:
    return {
        "entries": [
            {
                "entity": [{"entity_type": "user", "entity_name": "none-such"}],
                "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}],
            }
        ],
        "validate_only": True,
    }


@_question("CreateDelegationToken", "for oneself")
def _(version: int, ids: Ids) -> Values:
    return {"renewers": [{"principal_type": "Nobody", "principal_name": "n"}], "max_lifetime_ms": 1000}


@_question("CreateDelegationToken", "for another user", since=3)
def _(version: int, ids: Ids) -> Values:
    return {
        "owner_principal_type": "User",
        "owner_principal_name": "somebody-else",
        "renewers": [{"principal_type": "Nobody", "principal_name": "n"}],
        "max_lifetime_ms": 1000,
    }


@_question("RenewDelegationToken")
def _(version: int, ids: Ids) -> Values:
    return {"hmac": b"no such token", "renew_period_ms": 1000}


@_question("ExpireDelegationToken")
def _(version: int, ids: Ids) -> Values:
    return {"hmac": b"no such token", "expiry_time_period_ms": 1000}


@_question("DescribeDelegationToken", "of everybody")
def _(version: int, ids: Ids) -> Values:
    return {"owners": None}


@_question("DescribeDelegationToken", "of its owner")
def _(version: int, ids: Ids) -> Values:
    return {"owners": [{"principal_type": "User", "principal_name": OWNER}]}


_INSTANCES = itertools.count(1)


def _new_instance() -> bytes:
    """Return the id of a new client: a client that comes back soon is throttled."""
    return next(_INSTANCES).to_bytes(16, "big")


@_question("GetTelemetrySubscriptions")
def _(version: int, ids: Ids) -> Values:
    return {"client_instance_id": _new_instance()}


@_question("PushTelemetry")
def _(version: int, ids: Ids) -> Values:
    return {"client_instance_id": _new_instance(), "subscription_id": 99, "metrics": b""}


@_question("SaslHandshake", "after the login")
def _(version: int, ids: Ids) -> Values:
    return {"mechanism": "PLAIN"}


# Groups


@_question("FindCoordinator", "of groups")
def _(version: int, ids: Ids) -> Values:
    return {"key_type": 0, "coordinator_keys": list(GROUPS)} if version >= 4 else {"key_type": 0, "key": THERE}


@_question("FindCoordinator", "of transactional ids", since=1)
def _(version: int, ids: Ids) -> Values:
    return {"key_type": 1, "coordinator_keys": [THERE, MISSING]} if version >= 4 else {"key_type": 1, "key": THERE}


@_question("ListGroups")
def _(version: int, ids: Ids) -> Values:
    return {}


@_question("DescribeGroups")
def _(version: int, ids: Ids) -> Values:
    return {"groups": list(GROUPS), "include_authorized_operations": version >= 3}


@_question("ConsumerGroupDescribe")
def _(version: int, ids: Ids) -> Values:
    return {"group_ids": list(GROUPS), "include_authorized_operations": True}


@_question("DeleteGroups")
def _(version: int, ids: Ids) -> Values:
    return {"groups_names": [MEMBERS, MISSING]}


@_question("JoinGroup")
def _(version: int, ids: Ids) -> Values:
    return {
        "group_id": THERE,
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


@_question("SyncGroup")
def _(version: int, ids: Ids) -> Values:
    return {
        "group_id": THERE,
        "generation_id": 1,
        "member_id": "nobody-s",
        "protocol_type": "consumer",
        "protocol_name": "range",
    }


@_question("Heartbeat")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": THERE, "generation_id": 1, "member_id": "nobody-s"}


@_question("LeaveGroup")
def _(version: int, ids: Ids) -> Values:
    if version < 3:
        return {"group_id": THERE, "member_id": "nobody-s"}
    return {"group_id": THERE, "members": [{"member_id": "nobody-s"}]}


@_question("ConsumerGroupHeartbeat", "of names")
def _(version: int, ids: Ids) -> Values:
    return {
        "group_id": MEMBERS,
        "member_id": "nobody-s",
        "member_epoch": 5,
        "rebalance_timeout_ms": -1,
        "subscribed_topic_names": [THERE, MISSING],
    }


@_question("ConsumerGroupHeartbeat", "without names")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": MEMBERS, "member_id": "nobody-s", "member_epoch": 5, "rebalance_timeout_ms": -1}


def _commits(version: int, ids: Ids, by_id_since: int) -> list[Values]:
    return [
        {
            **_named(name, ids, by_id=version >= by_id_since),
            "partitions": [{"partition_index": 0, "committed_offset": 0}],
        }
        for name in TWO_TOPICS
    ]


@_question("OffsetCommit")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": THERE, "generation_id_or_member_epoch": -1, "topics": _commits(version, ids, 10)}


def _wanted(version: int, ids: Ids) -> list[Values]:
    return [{**_named(name, ids, by_id=version >= 10), "partition_indexes": [0]} for name in TWO_TOPICS]


@_question("OffsetFetch", "of topics")
def _(version: int, ids: Ids) -> Values:
    if version < 8:
        return {"group_id": THERE, "topics": _wanted(version, ids)}
    return {"groups": [{"group_id": name, "topics": _wanted(version, ids)} for name in (THERE, MISSING)]}


@_question("OffsetFetch", "of everything", since=2)
def _(version: int, ids: Ids) -> Values:
    if version < 8:
        return {"group_id": THERE, "topics": None}
    return {"groups": [{"group_id": name, "topics": None} for name in (THERE, MISSING)]}


@_question("OffsetDelete")
def _(version: int, ids: Ids) -> Values:
    return {
        "group_id": THERE,
        "topics": [{"name": name, "partitions": [{"partition_index": 1}]} for name in TWO_TOPICS],
    }


# Transactions


@_question("InitProducerId", "with a transactional id")
def _(version: int, ids: Ids) -> Values:
    return {"transactional_id": FRESH, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}


@_question("InitProducerId", "without one")
def _(version: int, ids: Ids) -> Values:
    return {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}


@_question("AddPartitionsToTxn")
def _(version: int, ids: Ids) -> Values:
    topics = [{"name": name, "partitions": [0]} for name in (THERE, OTHER)]
    if version < 4:
        return {
            "v3_and_below_transactional_id": THERE,
            "v3_and_below_producer_id": NO_PRODUCER,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": topics,
        }
    one = {
        "transactional_id": THERE,
        "producer_id": NO_PRODUCER,
        "producer_epoch": 0,
        "verify_only": True,
        "topics": topics,
    }
    return {"transactions": [one, {**one, "transactional_id": MISSING}]}


@_question("AddOffsetsToTxn")
def _(version: int, ids: Ids) -> Values:
    return {"transactional_id": THERE, "producer_id": NO_PRODUCER, "producer_epoch": 0, "group_id": THERE}


@_question("TxnOffsetCommit")
def _(version: int, ids: Ids) -> Values:
    return {
        "transactional_id": THERE,
        "group_id": THERE,
        "producer_id": NO_PRODUCER,
        "producer_epoch": 0,
        "generation_id_or_member_epoch": -1,
        "topics": _commits(version, ids, 6),
    }


@_question("EndTxn")
def _(version: int, ids: Ids) -> Values:
    return {"transactional_id": THERE, "producer_id": NO_PRODUCER, "producer_epoch": 0, "committed": True}


@_question("WriteTxnMarkers")
def _(version: int, ids: Ids) -> Values:
    return {
        "markers": [
            {
                "producer_id": NO_PRODUCER,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [{"name": MISSING, "partition_indexes": [0]}],
                "coordinator_epoch": 0,
            }
        ]
    }


@_question("DescribeTransactions")
def _(version: int, ids: Ids) -> Values:
    return {"transactional_ids": [THERE, MISSING]}


@_question("ListTransactions")
def _(version: int, ids: Ids) -> Values:
    return {}


@_question("StreamsGroupHeartbeat", "of a topology")
def _(version: int, ids: Ids) -> Values:
    reads = {"subtopology_id": "0", "source_topics": [THERE], "repartition_sink_topics": [MISSING]}
    return {
        "group_id": MEMBERS,
        "member_id": "nobody-s",
        "rebalance_timeout_ms": 1,
        "topology": {"subtopologies": [reads]},
    }


@_question("StreamsGroupHeartbeat", "without one")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": MEMBERS, "member_id": "nobody-s", "member_epoch": 5}


@_question("StreamsGroupDescribe")
def _(version: int, ids: Ids) -> Values:
    return {"group_ids": list(GROUPS), "include_authorized_operations": True}


@_question("StreamsGroupTopologyDescriptionUpdate")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": MEMBERS, "member_id": "nobody-s"}


# Share groups: asked while the feature share.version is 0 with all others, and once more while it is 1


@_question("ShareGroupHeartbeat")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": THERE, "member_id": "nobody-s", "member_epoch": 5, "subscribed_topic_names": [THERE, MISSING]}


@_question("ShareGroupDescribe")
def _(version: int, ids: Ids) -> Values:
    return {"group_ids": list(GROUPS), "include_authorized_operations": True}


@_question("ShareFetch")
@_question("ShareAcknowledge")
def _(version: int, ids: Ids) -> Values:
    topics = [{"topic_id": ids[name], "partitions": [{"partition_index": 0}]} for name in TWO_TOPICS]
    return {"group_id": THERE, "member_id": "nobody-s", "share_session_epoch": 5, "topics": topics}


def _states(version: int, ids: Ids) -> Values:
    return {"group_id": THERE, "topics": [{"topic_id": ids[THERE], "partitions": [{"partition": 0}]}]}


_question("InitializeShareGroupState")(_states)
_question("ReadShareGroupState")(_states)
_question("WriteShareGroupState")(_states)
_question("DeleteShareGroupState")(_states)
_question("ReadShareGroupStateSummary")(_states)


@_question("DescribeShareGroupOffsets")
def _(version: int, ids: Ids) -> Values:
    return {"groups": [{"group_id": group_id, "topics": None} for group_id in GROUPS]}


@_question("AlterShareGroupOffsets")
def _(version: int, ids: Ids) -> Values:
    topics = [{"topic_name": THERE, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    return {"group_id": MISSING, "topics": topics}


@_question("DeleteShareGroupOffsets")
def _(version: int, ids: Ids) -> Values:
    return {"group_id": MISSING, "topics": [{"topic_name": THERE}]}


def _of_share_partitions(version: int, ids: Ids) -> Values:
    key = f"{THERE}:{uuid_text(ids[MISSING])}:0"  # The id of an existing topic differs between brokers.
    return {"key_type": 2, "coordinator_keys": [key, "no key"]}


SHARE_QUESTIONS = [
    Question(BY_NAME["FindCoordinator"], "of share partitions", _of_share_partitions, range(6, 7), ""),
    *(question for question in QUESTIONS if "Share" in question.api.name),
]
"""Questions whose answers differ when share groups are enabled."""
