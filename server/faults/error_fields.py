"""Names in the requests of each API, and places for errors in its responses.

A response has one or both of two places: the request as a whole (`error_code` of the response itself), and each row of
an array that corresponds to an array of the request. If both exist, `on_top` lists the codes for the whole, as in
Kafka's brokers.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any

from ...protocol.apis import APIS
from ...protocol.errors import ErrorCode
from ...protocol.schema import fields_of


class NameKind(Enum):
    """Kind of a name in a request."""

    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"
    COORDINATOR_KEY = "group or transactional id, as the request's key_type says"
    RESOURCE = "topic or group, as resource_type says, or something else"


@dataclass(frozen=True, slots=True)
class Rows:
    """An array of a request whose rows have one row each in the response."""

    kind: NameKind | None
    asked: str
    """The array in the request; "" if the request has none, and the response lists everything."""
    name: tuple[str, ...]
    """The fields that name a row; empty if the elements are names themselves."""
    told: str
    """The array in the response."""
    told_name: tuple[str, ...]
    """The fields of the response that contain these names; empty if rows correspond by position only."""
    within: Rows | None = None
    """Inner rows of each row."""
    code: str = "error_code"
    """The field for the error; "" if only the inner rows have one."""
    deeper: Container[ErrorCode] = frozenset()
    """Codes that belong in the inner rows even if the outer rows have an error field."""
    kept: tuple[str, ...] = ()
    """Fields of a response row that keep their values next to an error."""


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """Names and error places of one API."""

    rows: tuple[Rows, ...] = ()
    """Alternatives by version: the one whose array the version has applies."""
    flat: Mapping[NameKind, str] = field(default_factory=dict)
    """Fields of the request itself that contain names, by kind."""
    on_top: Container[ErrorCode] = frozenset()
    """Codes for the request as a whole, if it has rows."""
    is_overlaid: bool = False
    """Whether the request changes nothing and may ask for everything: it is executed, and then rows of the response are
    replaced.
    """
    is_all_or_nothing: bool = False
    """Whether no row is executed if one is refused: OPERATION_NOT_ATTEMPTED."""
    echoed: tuple[str, ...] = ()
    """Fields of the request that the response repeats."""


class AllBut(frozenset[ErrorCode]):
    """All codes except these."""

    def __contains__(self, code: object) -> bool:
        return not super().__contains__(code)


def _partitions(
    asked: str = "partitions",
    name: str = "partition_index",
    told: str = "partitions",
    told_name: str = "partition_index",
    **more: Any,
) -> Rows:
    return Rows(NameKind.PARTITION, asked, (name,) if name else (), told, (told_name,), **more)


def _topics(
    within: Rows | None,
    asked: str = "topics",
    name: tuple[str, ...] = ("name",),
    told: str = "topics",
    told_name: tuple[str, ...] | None = None,
    **more: Any,
) -> Rows:
    if within is not None and "code" not in more:
        more["code"] = ""
    return Rows(NameKind.TOPIC, asked, name, told, name if told_name is None else told_name, within, **more)


_BY_ID = ("name", "topic_id")
_GROUP = {NameKind.GROUP: "group_id"}
_TRANSACTION = {NameKind.TRANSACTIONAL_ID: "transactional_id"}
_RESOURCE = ("resource_type", "resource_name")
_OF_CONTROLLERS = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.REQUEST_TIMED_OUT}
)
_OF_ONE_OFFSET = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
_OF_OFFSETS = AllBut(_OF_ONE_OFFSET)
_OF_SESSIONS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
    }
)
_OF_SHARE_SESSIONS = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_OF_GROUPS = AllBut(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_SERVER_ERROR}
)
_TXN_PARTITIONS = _partitions("partitions", "", "results_by_partition", code="partition_error_code")

_BY_API = {
    "AddOffsetsToTxn": ErrorFields(flat=_GROUP | _TRANSACTION),
    "AddPartitionsToTxn": ErrorFields(
        (
            _topics(_TXN_PARTITIONS, "v3_and_below_topics", told="results_by_topic_v3_and_below"),
            Rows(
                NameKind.TRANSACTIONAL_ID,
                "transactions",
                ("transactional_id",),
                "results_by_transaction",
                ("transactional_id",),
                _topics(_TXN_PARTITIONS, told="topic_results"),
                code="",
            ),
        ),
        {NameKind.TRANSACTIONAL_ID: "v3_and_below_transactional_id"},
        on_top=frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED}),
        is_all_or_nothing=True,
    ),
    "AddRaftVoter": ErrorFields(),
    "AlterClientQuotas": ErrorFields((Rows(None, "entries", ("entity",), "entries", ("entity",)),)),
    "AlterConfigs": ErrorFields((Rows(NameKind.RESOURCE, "resources", _RESOURCE, "responses", _RESOURCE),)),
    "AlterPartitionReassignments": ErrorFields((_topics(_partitions(), told="responses"),), on_top=_OF_CONTROLLERS),
    # The request's names are one level deeper than the response's rows: `handlers/faulted` puts the error into all of them.
    "AlterReplicaLogDirs": ErrorFields(
        (_topics(_partitions(""), "", told="results", told_name=("topic_name",)),), is_overlaid=True
    ),
    "AlterShareGroupOffsets": ErrorFields(
        (_topics(_partitions(), name=("topic_name",), told="responses"),), _GROUP, on_top=_OF_GROUPS
    ),
    "AlterUserScramCredentials": ErrorFields((Rows(None, "upsertions", ("name",), "results", ("user",)),)),
    "ApiVersions": ErrorFields(),
    "ConsumerGroupDescribe": ErrorFields((Rows(NameKind.GROUP, "group_ids", (), "groups", ("group_id",)),)),
    "ConsumerGroupHeartbeat": ErrorFields(flat=_GROUP),
    "CreateAcls": ErrorFields((Rows(None, "creations", (), "results", ()),)),
    "CreateDelegationToken": ErrorFields(),
    "CreatePartitions": ErrorFields((_topics(None, told="results"),)),
    "CreateTopics": ErrorFields((_topics(None),)),
    "DeleteAcls": ErrorFields((Rows(None, "filters", (), "filter_results", ()),)),
    "DeleteGroups": ErrorFields((Rows(NameKind.GROUP, "groups_names", (), "results", ("group_id",)),)),
    "DeleteRecords": ErrorFields((_topics(_partitions()),)),
    "DeleteShareGroupOffsets": ErrorFields(
        (_topics(None, name=("topic_name",), told="responses"),), _GROUP, on_top=_OF_GROUPS
    ),
    "DeleteShareGroupState": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic_id",), told="results"),), _GROUP
    ),
    "DeleteTopics": ErrorFields(
        (
            _topics(None, name=_BY_ID, told="responses"),
            _topics(None, "topic_names", (), "responses", ("name",)),
        )
    ),
    "DescribeAcls": ErrorFields(),
    "DescribeClientQuotas": ErrorFields(),
    "DescribeCluster": ErrorFields(),
    "DescribeConfigs": ErrorFields((Rows(NameKind.RESOURCE, "resources", _RESOURCE, "results", _RESOURCE),)),
    "DescribeDelegationToken": ErrorFields(),
    "DescribeGroups": ErrorFields((Rows(NameKind.GROUP, "groups", (), "groups", ("group_id",)),)),
    "DescribeLogDirs": ErrorFields(
        (Rows(None, "", (), "results", ("log_dir",)),),
        on_top=AllBut({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.LOG_DIR_NOT_FOUND}),
        is_overlaid=True,
    ),
    "DescribeProducers": ErrorFields((_topics(_partitions("partition_indexes", "")),)),
    "DescribeQuorum": ErrorFields(),
    "DescribeShareGroupOffsets": ErrorFields((Rows(NameKind.GROUP, "groups", ("group_id",), "groups", ("group_id",)),)),
    "DescribeTopicPartitions": ErrorFields(
        (
            _topics(
                _partitions("", "", kept=("replica_nodes", "isr_nodes")),
                code="error_code",
                kept=("topic_id", "is_internal"),
            ),
        ),
        is_overlaid=True,
    ),
    "DescribeTransactions": ErrorFields(
        (Rows(NameKind.TRANSACTIONAL_ID, "transactional_ids", (), "transaction_states", ("transactional_id",)),)
    ),
    "DescribeUserScramCredentials": ErrorFields(),
    "ElectLeaders": ErrorFields(
        (
            _topics(
                _partitions("partitions", "", "partition_result", "partition_id"),
                "topic_partitions",
                ("topic",),
                "replica_election_results",
            ),
        ),
        on_top=_OF_CONTROLLERS,
    ),
    "EndTxn": ErrorFields(flat=_TRANSACTION),
    "ExpireDelegationToken": ErrorFields(),
    "Fetch": ErrorFields(
        (_topics(_partitions(name="partition"), name=("topic", "topic_id"), told="responses"),),
        on_top=_OF_SESSIONS,
        is_overlaid=True,
    ),
    "FindCoordinator": ErrorFields(
        (Rows(NameKind.COORDINATOR_KEY, "coordinator_keys", (), "coordinators", ("key",)),),
        {NameKind.COORDINATOR_KEY: "key"},
    ),
    "GetTelemetrySubscriptions": ErrorFields(),
    "Heartbeat": ErrorFields(flat=_GROUP),
    "IncrementalAlterConfigs": ErrorFields((Rows(NameKind.RESOURCE, "resources", _RESOURCE, "responses", _RESOURCE),)),
    "InitProducerId": ErrorFields(flat=_TRANSACTION),
    "InitializeShareGroupState": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic_id",), told="results"),), _GROUP
    ),
    "JoinGroup": ErrorFields(flat=_GROUP, echoed=("member_id",)),
    "LeaveGroup": ErrorFields(flat=_GROUP),
    "ListConfigResources": ErrorFields(),
    "ListGroups": ErrorFields(),
    "ListOffsets": ErrorFields((_topics(_partitions()),)),
    "ListPartitionReassignments": ErrorFields(),
    "ListTransactions": ErrorFields(),
    "Metadata": ErrorFields(
        (
            _topics(
                _partitions("", "", kept=("leader_epoch", "replica_nodes", "isr_nodes")),
                name=_BY_ID,
                code="error_code",
                deeper=frozenset({ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND}),
                kept=("is_internal",),
            ),
        ),
        on_top=frozenset({ErrorCode.REBOOTSTRAP_REQUIRED}),
        is_overlaid=True,
    ),
    "OffsetCommit": ErrorFields((_topics(_partitions(), name=_BY_ID),), _GROUP),
    "OffsetDelete": ErrorFields((_topics(_partitions()),), _GROUP, on_top=_OF_OFFSETS),
    "OffsetFetch": ErrorFields(
        (
            _topics(_partitions("partition_indexes", "")),
            Rows(
                NameKind.GROUP,
                "groups",
                ("group_id",),
                "groups",
                ("group_id",),
                _topics(_partitions("partition_indexes", ""), name=_BY_ID),
                deeper=_OF_ONE_OFFSET,
            ),
        ),
        _GROUP,
        on_top=_OF_OFFSETS,
    ),
    "OffsetForLeaderEpoch": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic",)),)
    ),
    "Produce": ErrorFields(
        (
            _topics(
                _partitions("partition_data", "index", "partition_responses", "index"),
                "topic_data",
                _BY_ID,
                "responses",
            ),
        ),
        _TRANSACTION,
    ),
    "PushTelemetry": ErrorFields(),
    "ReadShareGroupState": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic_id",), told="results"),), _GROUP
    ),
    "ReadShareGroupStateSummary": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic_id",), told="results"),), _GROUP
    ),
    "RemoveRaftVoter": ErrorFields(),
    "RenewDelegationToken": ErrorFields(),
    "SaslAuthenticate": ErrorFields(),
    "SaslHandshake": ErrorFields(),
    "ShareAcknowledge": ErrorFields(
        (_topics(_partitions(), name=("topic_id",), told="responses"),), _GROUP, on_top=_OF_SHARE_SESSIONS
    ),
    "ShareFetch": ErrorFields(
        (_topics(_partitions(), name=("topic_id",), told="responses"),), _GROUP, on_top=_OF_SHARE_SESSIONS
    ),
    "ShareGroupDescribe": ErrorFields((Rows(NameKind.GROUP, "group_ids", (), "groups", ("group_id",)),)),
    "ShareGroupHeartbeat": ErrorFields(flat=_GROUP),
    "StreamsGroupDescribe": ErrorFields((Rows(NameKind.GROUP, "group_ids", (), "groups", ("group_id",)),)),
    "StreamsGroupHeartbeat": ErrorFields(flat=_GROUP),
    "StreamsGroupTopologyDescriptionUpdate": ErrorFields(flat=_GROUP),
    "SyncGroup": ErrorFields(flat=_GROUP),
    "TxnOffsetCommit": ErrorFields((_topics(_partitions(), name=_BY_ID),), _GROUP | _TRANSACTION),
    "UnregisterBroker": ErrorFields(),
    "UnregisterController": ErrorFields(),
    "UpdateFeatures": ErrorFields(),
    "WriteShareGroupState": ErrorFields(
        (_topics(_partitions(name="partition", told_name="partition"), name=("topic_id",), told="results"),), _GROUP
    ),
    "WriteTxnMarkers": ErrorFields(
        (
            Rows(
                None,
                "markers",
                ("producer_id",),
                "markers",
                ("producer_id",),
                _topics(_partitions("partition_indexes", "")),
                code="",
            ),
        )
    ),
}

ERROR_FIELDS: Mapping[int, ErrorFields] = {api.key: _BY_API[api.name] for api in APIS.values() if api.name in _BY_API}
"""Names and error places of all served APIs, by API key."""

_MEANS = {
    NameKind.COORDINATOR_KEY: {NameKind.GROUP, NameKind.TRANSACTIONAL_ID},
    NameKind.RESOURCE: {NameKind.TOPIC, NameKind.GROUP},
    None: set[NameKind](),
}


@cache
def names(key: int) -> frozenset[NameKind]:
    """Return the kinds of names in requests of an API, in any version."""
    places = ERROR_FIELDS[key]
    kinds = {*places.flat, *(each.kind for rows in places.rows for each in down(rows))}
    return frozenset(meant for kind in kinds for meant in _MEANS.get(kind, {kind}) if meant is not None)


def down(rows: Rows) -> Iterator[Rows]:
    """Yield these rows, and the inner ones."""
    here: Rows | None = rows
    while here is not None:
        yield here
        here = here.within


@cache
def rows_in(key: int, version: int) -> Rows | None:
    """Return the rows of an API in one version."""
    here = {each.name for each in fields_of(APIS[key].request) if each.exists_in(version)}
    return next((rows for rows in ERROR_FIELDS[key].rows if not rows.asked or rows.asked in here), None)


@cache
def has_code_on_top(key: int, version: int) -> bool:
    """Return whether the response has an error field for the request as a whole."""
    return any(each.name == "error_code" and each.exists_in(version) for each in fields_of(APIS[key].response))
