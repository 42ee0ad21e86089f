"""Declared errors in the answers of every API in every version: in the right place, and readable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api
from ottla.protocol.connection import Request, encode_response, parse_response
from ottla.protocol.errors import ErrorCode
from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.static_config import static_config
from ottla.server.faults.declaration import Declaration
from ottla.server.network.dispatcher import finished
from support.asked import asked
from support.broker.contexts import context_of
from support.sizes import size

CODE = ErrorCode.UNKNOWN_SERVER_ERROR

# The fields that must have the code, by the first version that must have them. The key of a row comes after it.
WHERE: dict[str, dict[int, str]] = {
    "AddOffsetsToTxn": {0: "error_code"},
    "AddPartitionsToTxn": {
        0: "results_by_topic_v3_and_below[t].results_by_partition[0].partition_error_code",
        4: "results_by_transaction[x].topic_results[t].results_by_partition[0].partition_error_code",
    },
    "AddRaftVoter": {0: "error_code"},
    "AlterClientQuotas": {0: "entries[].error_code"},
    "AlterConfigs": {0: "responses[2 t].error_code"},
    "AlterPartitionReassignments": {0: "responses[t].partitions[0].error_code"},
    "AlterReplicaLogDirs": {0: "results[t].partitions[0].error_code"},
    "AlterShareGroupOffsets": {0: "responses[t].partitions[0].error_code"},
    "AlterUserScramCredentials": {0: "results[].error_code"},
    "ApiVersions": {0: "error_code"},
    "ConsumerGroupDescribe": {0: "groups[g].error_code"},
    "ConsumerGroupHeartbeat": {0: "error_code"},
    "CreateAcls": {0: "results[].error_code"},
    "CreateDelegationToken": {0: "error_code"},
    "CreatePartitions": {0: "results[t].error_code"},
    "CreateTopics": {0: "topics[t].error_code"},
    "DeleteAcls": {0: "filter_results[].error_code"},
    "DeleteGroups": {0: "results[g].error_code"},
    "DeleteRecords": {0: "topics[t].partitions[0].error_code"},
    "DeleteShareGroupOffsets": {0: "responses[t].error_code"},
    "DeleteShareGroupState": {0: "results[ID].partitions[0].error_code"},
    "DeleteTopics": {0: "responses[t].error_code", 6: "responses[ID].error_code"},
    "DescribeAcls": {0: "error_code"},
    "DescribeClientQuotas": {0: "error_code"},
    "DescribeCluster": {0: "error_code"},
    "DescribeConfigs": {0: "results[2 t].error_code"},
    "DescribeDelegationToken": {0: "error_code"},
    "DescribeGroups": {0: "groups[g].error_code"},
    "DescribeLogDirs": {0: "results[DIR].error_code", 3: "error_code"},
    "DescribeProducers": {0: "topics[t].partitions[0].error_code"},
    "DescribeQuorum": {0: "error_code"},
    "DescribeShareGroupOffsets": {0: "groups[g].error_code"},
    "DescribeTopicPartitions": {0: "topics[t].error_code"},
    "DescribeTransactions": {0: "transaction_states[x].error_code"},
    "DescribeUserScramCredentials": {0: "error_code"},
    "ElectLeaders": {0: "replica_election_results[t].partition_result[0].error_code"},
    "EndTxn": {0: "error_code"},
    "ExpireDelegationToken": {0: "error_code"},
    "Fetch": {0: "responses[t].partitions[0].error_code", 13: "responses[ID].partitions[0].error_code"},
    "FindCoordinator": {0: "error_code", 4: "coordinators[g].error_code"},
    "GetTelemetrySubscriptions": {0: "error_code"},
    "Heartbeat": {0: "error_code"},
    "IncrementalAlterConfigs": {0: "responses[2 t].error_code"},
    "InitProducerId": {0: "error_code"},
    "InitializeShareGroupState": {0: "results[ID].partitions[0].error_code"},
    "JoinGroup": {0: "error_code"},
    "LeaveGroup": {0: "error_code"},
    "ListConfigResources": {0: "error_code"},
    "ListGroups": {0: "error_code"},
    "ListOffsets": {0: "topics[t].partitions[0].error_code"},
    "ListPartitionReassignments": {0: "error_code"},
    "ListTransactions": {0: "error_code"},
    "Metadata": {0: "topics[t].error_code"},
    "OffsetCommit": {0: "topics[t].partitions[0].error_code", 10: "topics[ID].partitions[0].error_code"},
    "OffsetDelete": {0: "error_code"},
    "OffsetFetch": {0: "topics[t].partitions[0].error_code", 2: "error_code", 8: "groups[g].error_code"},
    "OffsetForLeaderEpoch": {0: "topics[t].partitions[0].error_code"},
    "Produce": {
        0: "responses[t].partition_responses[0].error_code",
        13: "responses[ID].partition_responses[0].error_code",
    },
    "PushTelemetry": {0: "error_code"},
    "ReadShareGroupState": {0: "results[ID].partitions[0].error_code"},
    "ReadShareGroupStateSummary": {0: "results[ID].partitions[0].error_code"},
    "RemoveRaftVoter": {0: "error_code"},
    "RenewDelegationToken": {0: "error_code"},
    "SaslAuthenticate": {0: "error_code"},
    "SaslHandshake": {0: "error_code"},
    "ShareAcknowledge": {0: "responses[ID].partitions[0].error_code"},
    "ShareFetch": {0: "responses[ID].partitions[0].error_code"},
    "ShareGroupDescribe": {0: "groups[g].error_code"},
    "ShareGroupHeartbeat": {0: "error_code"},
    "StreamsGroupDescribe": {0: "groups[g].error_code"},
    "StreamsGroupHeartbeat": {0: "error_code"},
    "StreamsGroupTopologyDescriptionUpdate": {0: "error_code"},
    "SyncGroup": {0: "error_code"},
    "TxnOffsetCommit": {0: "topics[t].partitions[0].error_code", 6: "topics[ID].partitions[0].error_code"},
    "UnregisterBroker": {0: "error_code"},
    "UnregisterController": {0: "error_code"},
    "UpdateFeatures": {0: "error_code"},
    "WriteShareGroupState": {0: "results[ID].partitions[0].error_code"},
    "WriteTxnMarkers": {0: "markers[].topics[t].partitions[0].error_code"},
}
SHARE_SESSIONS = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
# While share groups are disabled. An error that comes after their execution has no rows for it.
REFUSED_AS_A_WHOLE = ("AlterShareGroupOffsets", "DeleteShareGroupOffsets", "ShareAcknowledge", "ShareFetch")
# Codes with a place of their own, and the fault's match besides the API.
ELSEWHERE: list[tuple[str, ErrorCode, dict[str, Any], dict[int, str]]] = [
    *((name, code, {}, {1: "error_code"}) for name in ("ShareFetch", "ShareAcknowledge") for code in SHARE_SESSIONS),
    ("AlterShareGroupOffsets", ErrorCode.NON_EMPTY_GROUP, {}, {0: "error_code"}),
    ("DeleteShareGroupOffsets", ErrorCode.GROUP_ID_NOT_FOUND, {}, {0: "error_code"}),
    ("Fetch", ErrorCode.FETCH_SESSION_ID_NOT_FOUND, {}, {7: "error_code"}),
    ("Metadata", ErrorCode.REBOOTSTRAP_REQUIRED, {}, {13: "error_code"}),
    (
        "Metadata",
        ErrorCode.LEADER_NOT_AVAILABLE,
        {"topic": "t", "partition": 0},
        {0: "topics[t].partitions[0].error_code"},
    ),
    ("Metadata", ErrorCode.REPLICA_NOT_AVAILABLE, {}, {0: "topics[t].partitions[0,1].error_code"}),
    (
        "DescribeTopicPartitions",
        ErrorCode.LEADER_NOT_AVAILABLE,
        {"topic": "t", "partition": 1},
        {0: "topics[t].partitions[1].error_code"},
    ),
    ("DescribeLogDirs", ErrorCode.KAFKA_STORAGE_ERROR, {}, {0: "results[DIR].error_code"}),
    ("ElectLeaders", ErrorCode.NOT_CONTROLLER, {}, {1: "error_code"}),
    ("AlterPartitionReassignments", ErrorCode.NOT_CONTROLLER, {}, {0: "error_code"}),
    ("AddPartitionsToTxn", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, {}, {4: "error_code"}),
    ("OffsetDelete", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, {}, {0: "topics[t].partitions[0].error_code"}),
    (
        "OffsetFetch",
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        {},
        {
            0: "topics[t].partitions[0].error_code",
            8: "groups[g].topics[t].partitions[0].error_code",
            10: "groups[g].topics[ID].partitions[0].error_code",
        },
    ),
    (
        "OffsetFetch",
        ErrorCode.NOT_COORDINATOR,
        {"group": "g", "topic": "t", "partition": 0},
        {
            0: "topics[t].partitions[0].error_code",
            8: "groups[g].topics[t].partitions[0].error_code",
            10: "groups[g].topics[ID].partitions[0].error_code",
        },
    ),
]
NAMED_BY = [
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "index",
    "partition_index",
    "partition",
    "partition_id",
    "group_id",
]
NAMED_BY += ["transactional_id", "key", "resource_type", "resource_name", "log_dir"]


@asynccontextmanager
async def broker_with_t(data_dir: Path) -> AsyncIterator[tuple[Broker, bytes]]:
    """Run a broker with topic "t" of two partitions; yield it with the topic's id."""
    static = static_config(profile="dev", flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir)})
    async with run_supervisor(static) as supervisor:
        broker = supervisor.broker
        topic = await broker.services.topic_admin.create(
            broker.services.topic_admin.planner.plan("t", num_partitions=2, replication_factor=1, configs={})
        )
        yield broker, topic.id


async def answered(broker: Broker, request: Request) -> Any:
    """Return the answer, through bytes."""
    await broker.handlers.loaded(request.api.key)
    body = await finished(broker.handlers[request.api.key](context_of(broker), request))
    parts = encode_response(request, body)
    frame = b"".join(bytes(part.read()) if hasattr(part, "read") else bytes(part) for part in parts)
    version = request.version if request.body is not None else 0
    correlation_id, answer = parse_response(request.api, version, frame[4:])
    assert correlation_id == 7
    return answer


def codes(message: Any, at: str = "") -> Iterator[tuple[str, int]]:
    """Yield the places of an answer that have codes other than NONE, with the codes."""
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and value:
            yield f"{at}{field.name}", value
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for row in value:
                yield from codes(row, f"{at}{field.name}[{_name(row)}].")


def _name(row: Any) -> str:
    found = [getattr(row, name) for name in NAMED_BY if hasattr(row, name)]
    told = [
        "ID" if isinstance(each, bytes) else "DIR" if "/" in str(each) else str(each)
        for each in found
        if each not in (None, "", bytes(16))
    ]
    return " ".join(told)


def place(where: dict[int, str], version: int) -> str | None:
    """Return the place for a version; None below the first."""
    return next((where[first] for first in sorted(where, reverse=True) if first <= version), None)


def versions_of(api: Api) -> range:
    return range(api.versions[0], api.versions[1] + 1)


def test_the_table_has_every_api() -> None:
    assert WHERE.keys() == {api.name for api in APIS.values()}


async def test_an_error_is_in_its_field_in_every_version_of_every_api(tmp_path: Path) -> None:
    async with broker_with_t(tmp_path) as (broker, topic_id):
        for api in APIS.values():
            for version in versions_of(api):
                for after in size(((api.key + version) % 2 == 1,), (False, True)):
                    fault = broker.faults.declare(Declaration(api=api.name, error=CODE.name, after=after))
                    # A request must not delete what the next one names.
                    values = {"validate_only": True} if api.name in ("CreateTopics", "CreatePartitions") else {}
                    if after and api.name in ("DeleteTopics", "JoinGroup", *REFUSED_AS_A_WHOLE):
                        fault.remove()
                        continue
                    answer = await answered(broker, asked(api, version, topic_id, **values))
                    found = {where.replace("[t ID]", "[t]"): code for where, code in codes(answer)}
                    if api.name in ("Metadata", "DescribeTopicPartitions") and version >= 10:
                        found = {where.replace("[ID]", "[t]"): code for where, code in found.items()}
                    assert found == {place(WHERE[api.name], version): CODE}, (api.name, version, after)
                    assert (fault.hits, fault.is_active) == (1, False)


@pytest.mark.parametrize(("name", "code", "of", "where"), ELSEWHERE)
async def test_error_codes_of_a_response_and_of_a_row_are_distinguished(
    name: str, code: ErrorCode, of: dict[str, Any], where: dict[int, str], tmp_path: Path
) -> None:
    (api,) = (api for api in APIS.values() if api.name == name)
    async with broker_with_t(tmp_path) as (broker, topic_id):
        for version in versions_of(api):
            broker.faults.declare(Declaration(api=name, error=code.name, **of))
            found = {
                at.replace("[t ID]", "[t]"): value
                for at, value in codes(await answered(broker, asked(api, version, topic_id)))
            }
            if name == "Metadata" and version >= 10:
                found = {at.replace("[ID]", "[t]"): value for at, value in found.items()}
            expected = place(where, version)
            if expected is None:  # it has no place there other than that of every code
                expected = place(WHERE[name], version)
            assert expected is not None
            both = [expected.replace("[0,1]", f"[{each}]") for each in (0, 1)]
            assert found == dict.fromkeys(both, code), version
