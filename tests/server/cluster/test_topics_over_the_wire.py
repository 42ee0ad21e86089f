"""Topics created, grown, described and deleted over the wire. Refusals are those of an Apache Kafka 4.3.1 broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ottla.server.config.broker_config import ConfigSource
from support.broker.admin import create, creations_ended, delete, grow, growth, metadata, topic_names, wanted
from support.broker.conversation import address, create_topic, fetch, fetch_request, produce, records_of
from support.broker.raw_client import RawClient

UNKNOWN_ID = bytes(range(16))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """Yield a client of a broker for all tests of refusals, which change nothing; topic `base` has three partitions."""
    with ottla.Broker(str(tmp_path_factory.mktemp("shared"))) as broker, RawClient(*address(broker)) as client:
        create(client, wanted("base", 3), wanted("dotted.name"))
        yield client


def codes(rows: Sequence[Any]) -> list[tuple[str, ErrorCode]]:
    return [(row.name, ErrorCode(row.error_code)) for row in rows]


# Creating


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("a b", "characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "characters other than"),
        ("a\nb", "characters other than"),
        ("ü", "characters other than"),
        ("x" * 250, "longer than the max allowed length 249"),
    ],
)
def test_an_invalid_topic_name_is_refused(shared: RawClient, name: str, says: str) -> None:
    (row,) = create(shared, wanted(name))
    assert (row.name, row.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert row.error_message.startswith("Topic name is invalid: ") and says in row.error_message
    (found,) = metadata(shared, name, create=True).topics
    assert found.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_name_and_every_legal_character_work(client: RawClient) -> None:
    names = ["x" * 249, "aZ09._-", "a"]
    assert codes(create(client, *map(wanted, names))) == [(name, ErrorCode.NONE) for name in names]
    assert topic_names(client) == set(names)


REFUSED = {
    "exists": (wanted("base"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'base' already exists."),
    "collides as a metric": (wanted("dotted_name"), ErrorCode.INVALID_TOPIC_EXCEPTION, "existing topic: dotted.name"),
    "Kafka's metadata log": (wanted("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "is prohibited"),
    "no partitions": (wanted("t", 0), ErrorCode.INVALID_PARTITIONS, "non-positive value"),
    "less than no partitions": (wanted("t", -2), ErrorCode.INVALID_PARTITIONS, "non-positive value"),
    "too many partitions": (wanted("t", 10_001), ErrorCode.POLICY_VIOLATION, "limit 10000"),
    "no replicas": (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
    "less than no replicas": (wanted("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
    "more replicas than nodes": (wanted("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s)"),
    "nothing right": (wanted("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
    "assignment and factor": (
        wanted("t", -1, 1, assignments=[(0, [0])]),
        ErrorCode.INVALID_REQUEST,
        "replication factor was not set to -1",
    ),
    "assignment and partitions": (
        wanted("t", 1, -1, assignments=[(0, [0])]),
        ErrorCode.INVALID_REQUEST,
        "numPartitions was not set to -1",
    ),
    "assignment with a gap": (
        wanted("t", -1, -1, assignments=[(0, [0]), (2, [0])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "consecutive 0-based",
    ),
    "assignment of a negative partition": (
        wanted("t", -1, -1, assignments=[(-1, [0]), (0, [0])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "consecutive 0-based",
    ),
    "one partition assigned twice": (
        wanted("t", -1, -1, assignments=[(0, [0]), (0, [0])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "multiple manual partition assignments for partition 0",
    ),
    "assignment to a missing node": (
        wanted("t", -1, -1, assignments=[(0, [77])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "includes broker 77",
    ),
    "assignment to one node twice": (
        wanted("t", -1, -1, assignments=[(0, [0, 0])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "more than once",
    ),
    "assignment to no node": (
        wanted("t", -1, -1, assignments=[(0, [])]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "empty replica list",
    ),
    "no value": (wanted("t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG, "retention.ms"),
    "unknown option": (wanted("t", configs={"zork": "1"}), ErrorCode.INVALID_CONFIG, "Unknown topic config name: zork"),
    "broker's option": (wanted("t", configs={"log.retention.ms": "1"}), ErrorCode.INVALID_CONFIG, "log.retention.ms"),
    "out of bounds": (
        wanted("t", configs={"segment.bytes": "1"}),
        ErrorCode.INVALID_CONFIG,
        "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
    ),
    "no number": (
        wanted("t", configs={"retention.ms": "long"}),
        ErrorCode.INVALID_CONFIG,
        "Invalid value long for configuration retention.ms: ",
    ),
    "no such policy": (
        wanted("t", configs={"cleanup.policy": "Compact"}),
        ErrorCode.INVALID_CONFIG,
        "Invalid value Compact for configuration cleanup.policy: each item must be one of: compact, delete",
    ),
    "options at odds": (
        wanted("t", configs={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
        ErrorCode.INVALID_CONFIG,
        "Invalid value 10 for configuration min.compaction.lag.ms: must not exceed max.compaction.lag.ms=5",
    ),
    "configs are looked at before replicas": (
        wanted("t", 1, 9, configs={"zork": "1"}),
        ErrorCode.INVALID_CONFIG,
        "zork",
    ),
}


@pytest.mark.parametrize(("topic", "code", "says"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("validate_only", [False, True], ids=["create", "validate"])
def test_an_invalid_topic_is_refused_with_a_reason_and_nothing_changes(
    shared: RawClient, topic: CreatableTopic, code: ErrorCode, says: str, validate_only: bool
) -> None:
    (row,) = create(shared, topic, validate_only=validate_only)
    assert (row.name, row.error_code) == (topic.name, code)
    assert says in row.error_message
    assert (row.topic_id, row.num_partitions, row.replication_factor, row.configs) == (bytes(16), -1, -1, ())
    assert topic_names(shared) == {"base", "dotted.name"}


def test_each_topic_of_a_request_succeeds_or_fails_on_its_own(client: RawClient) -> None:
    rows = create(client, wanted("twice"), wanted("good"), wanted("no name"), wanted("twice", 2), wanted("better"))
    assert codes(rows) == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("good", ErrorCode.NONE),
        ("no name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("better", ErrorCode.NONE),
    ]
    assert topic_names(client) == {"good", "better"}


def test_a_validated_topic_is_not_created(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    (row,) = create(client, wanted("t", 4, configs={"retention.ms": "5000"}), validate_only=True)
    assert (row.error_code, row.num_partitions, row.replication_factor) == (ErrorCode.NONE, 4, 1)
    assert {config.name: config.value for config in row.configs}["retention.ms"] == "5000"
    assert topic_names(client) == set()
    assert list((tmp_path / "data").glob("t-*")) == []


def test_minus_one_uses_the_brokers_defaults(tmp_path: Path) -> None:
    overrides = {"num.partitions": "3", "default.replication.factor": "2"}
    with ottla.Broker(str(tmp_path), nodes=2, overrides=overrides) as broker, RawClient(*address(broker)) as client:
        (row,) = create(client, wanted("t", -1, -1))
        assert (row.num_partitions, row.replication_factor) == (3, 2)
        (topic,) = metadata(client, "t").topics
        assert [len(partition.replica_nodes) for partition in topic.partitions] == [2, 2, 2]
        metadata(client, "auto", create=True)
        broker.run(partial(creations_ended, broker.inner))
        (auto,) = client.ask(DescribeTopicPartitionsRequest(topics=(TopicRequest(name="auto"),))).topics
        assert [len(partition.isr_nodes) for partition in auto.partitions] == [2, 2, 2]


def test_assigned_replicas_are_kept_in_order_and_the_first_leads(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker, RawClient(*address(broker)) as client:
        create(client, wanted("t", -1, -1, assignments=[(1, [2, 0]), (0, [1, 2])]))
        (topic,) = metadata(client, "t").topics
        assert [(row.leader_id, row.replica_nodes) for row in topic.partitions] == [(1, (1, 2)), (2, (2, 0))]


def test_the_response_returns_all_configs_of_the_topic_with_their_sources(client: RawClient) -> None:
    (row,) = create(client, wanted("t", configs={"retention.ms": "5000"}))
    configs = {config.name: config for config in row.configs}
    assert len(configs) == 37
    assert row.topic_config_error_code == ErrorCode.NONE
    own, default = configs["retention.ms"], configs["segment.bytes"]
    assert (own.value, own.config_source, own.read_only) == ("5000", ConfigSource.TOPIC, False)
    assert (default.value, default.config_source) == ("1073741824", ConfigSource.DEFAULT)
    assert row.topic_id == metadata(client, "t").topics[0].topic_id != bytes(16)


@pytest.mark.parametrize("version", range(2, 8))
def test_every_create_topics_version_is_answered(shared: RawClient, version: int) -> None:
    rows = create(shared, wanted("new"), wanted("base"), wanted("plain", -1, -1), validate_only=True, version=version)
    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE]
    assert rows[0].num_partitions == (1 if version >= 5 else -1)


def test_many_partitions_can_be_used_at_once(client: RawClient) -> None:
    create_topic(client, "t", partitions=20)
    assert produce(client, "t", ("k", "v"), partition=19).base_offset == 0


# Growing


GROWN_BADLY = {
    "same": (growth("base", 3), ErrorCode.INVALID_PARTITIONS, "already has 3 partition(s)"),
    "less": (growth("base", 2), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
    "negative": (growth("base", -1), ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
    "unknown": (growth("missing", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "missing"),
    "too few assignments": (growth("base", 5, [[0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 additional"),
    "no assignments": (growth("base", 5, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 additional"),
    "missing node": (growth("base", 4, [[77]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes broker 77"),
    "node twice": (growth("base", 4, [[0, 0]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
    "no node": (growth("base", 4, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty replica list"),
    "too many": (growth("base", 20_000), ErrorCode.POLICY_VIOLATION, "limit 10000"),
}


@pytest.mark.parametrize(("wish", "code", "says"), GROWN_BADLY.values(), ids=GROWN_BADLY.keys())
def test_an_invalid_number_of_partitions_is_refused(shared: RawClient, wish: Any, code: ErrorCode, says: str) -> None:
    (row,) = grow(shared, wish)
    assert (row.error_code, says in row.error_message) == (code, True), row.error_message
    assert len(metadata(shared, "base").topics[0].partitions) == 3


@pytest.mark.parametrize("version", range(4))
def test_a_topic_grows_and_keeps_its_records(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    produce(client, "t", ("k", "v"))
    assert codes(grow(client, growth("t", 3, [[0], [0]]), validate_only=True, version=version)) == [
        ("t", ErrorCode.NONE)
    ]
    assert len(metadata(client, "t").topics[0].partitions) == 1
    assert codes(grow(client, growth("t", 3), version=version)) == [("t", ErrorCode.NONE)]
    assert produce(client, "t", ("k", "v"), partition=2).base_offset == 0
    assert records_of(fetch(client, "t", 0)) == [(0, b"k", b"v")]


def test_a_topic_named_twice_does_not_grow(client: RawClient) -> None:
    create_topic(client, "t")
    create_topic(client, "u")
    rows = grow(client, growth("t", 2), growth("u", 2), growth("t", 3))
    assert codes(rows) == [("t", ErrorCode.INVALID_REQUEST), ("u", ErrorCode.NONE)]
    assert [len(topic.partitions) for topic in metadata(client, "t", "u").topics] == [1, 2]


# Deleting


@pytest.mark.parametrize("version", range(1, 6))
def test_a_topic_is_deleted_by_name_in_every_version(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    rows = delete(client, "t", "missing", version=version)
    assert sorted(codes(rows)) == [("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("t", ErrorCode.NONE)]
    assert topic_names(client) == set()
    assert produce(client, "t", ("k", "v")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_deleted_by_name_or_id(client: RawClient) -> None:
    create(client, wanted("a"), wanted("b"), wanted("c"))
    (topic,) = metadata(client, "a").topics
    rows = delete(client, topic.topic_id, "b")
    assert [(row.name, row.error_code) for row in rows] == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
    assert rows[0].topic_id == topic.topic_id
    assert topic_names(client) == {"c"}


@pytest.mark.parametrize(
    ("which", "code"),
    [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID),
        (("base", UNKNOWN_ID), ErrorCode.INVALID_REQUEST),
        ((None, bytes(16)), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_request_that_names_no_existing_topic_deletes_none(shared: RawClient, which: Any, code: ErrorCode) -> None:
    (row,) = delete(shared, which)
    assert (row.error_code, bool(row.error_message)) == (code, True)
    assert "base" in topic_names(shared)


def test_a_topic_named_twice_is_not_deleted_and_has_one_row(shared: RawClient) -> None:
    base_id = metadata(shared, "base").topics[0].topic_id
    for twice in (["base", "base"], [base_id, base_id], ["base", base_id], [base_id, "base"]):
        assert [row.error_code for row in delete(shared, *twice)] == [ErrorCode.INVALID_REQUEST], twice
    assert codes(delete(shared, "base", "base", version=5)) == [("base", ErrorCode.INVALID_REQUEST)]
    assert "base" in topic_names(shared)


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_REQUEST), (2, ErrorCode.INVALID_REQUEST)]
    + [(version, ErrorCode.TOPIC_DELETION_DISABLED) for version in range(3, 7)],
)
def test_with_delete_topic_enable_false_nothing_is_deleted(tmp_path: Path, version: int, code: ErrorCode) -> None:
    overrides = {"delete.topic.enable": "false"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        assert codes(delete(client, "t", version=version)) == [("t", code)]
        assert topic_names(client) == {"t"}


def test_internal_topics_cannot_be_grown(client: RawClient) -> None:
    metadata(client, "__consumer_offsets", create=True)
    (before,) = metadata(client, "__consumer_offsets").topics
    assert before.is_internal
    (row,) = grow(client, growth("__consumer_offsets", 99))
    assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert row.error_message == "__consumer_offsets is an internal topic"
    assert metadata(client).topics == (before,)


def test_a_new_topic_of_the_same_name_is_another_topic(client: RawClient) -> None:
    first = create_topic(client, "t", retention_ms=5000).topic_id
    produce(client, "t", ("k", "v"))
    delete(client, "t")
    second = create_topic(client, "t", partitions=2).topic_id
    assert first != second
    assert fetch(client, "t", 0).high_watermark == 0
    assert metadata(client, first).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_waiting_fetch_reports_that_its_topic_was_deleted(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t")
    with RawClient(*address(broker)) as admin:
        client.send(fetch_request("t", 0, max_wait_ms=60_000), version=12)
        delete(admin, "t")
        (row,) = client.receive().responses[0].partitions
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Metadata


@pytest.mark.parametrize("version", range(14))
def test_every_metadata_version_returns_nodes_topics_and_leaders(shared: RawClient, version: int) -> None:
    for answer in (metadata(shared, "base", version=version), metadata(shared, version=version)):
        (node,) = answer.brokers
        assert node.node_id == 0 and node.port > 0
        (base,) = (topic for topic in answer.topics if topic.name == "base")
        assert [(row.partition_index, row.leader_id, row.isr_nodes) for row in base.partitions] == [
            (index, 0, (0,)) for index in range(3)
        ]
        assert (answer.cluster_id is not None) == (version >= 2)
        assert answer.controller_id == (0 if version >= 1 else -1)
        assert any(base.topic_id) == (version >= 10)


@pytest.mark.parametrize("version", [1, 4, 9, 13])
def test_empty_and_null_topic_lists_differ(shared: RawClient, version: int) -> None:
    assert shared.ask(MetadataRequest(topics=()), version).topics == ()
    assert {topic.name for topic in shared.ask(MetadataRequest(topics=None), version).topics} == topic_names(shared)


def test_version_0_requests_all_topics_with_an_empty_list(shared: RawClient) -> None:
    assert {topic.name for topic in shared.ask(MetadataRequest(topics=()), 0).topics} == topic_names(shared)


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_is_found_by_its_id(shared: RawClient, version: int) -> None:
    topic_id = metadata(shared, "base").topics[0].topic_id
    found, missing = metadata(shared, topic_id, UNKNOWN_ID, version=version).topics
    assert (found.name, found.error_code, len(found.partitions)) == ("base", ErrorCode.NONE, 3)
    assert (missing.name, missing.topic_id, missing.error_code) == (None, UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_in_versions_that_do_not_support_them(shared: RawClient, version: int) -> None:
    topic_id = metadata(shared, "base").topics[0].topic_id
    rows = metadata(shared, topic_id, version=version).topics
    assert [row.error_code for row in rows] == [ErrorCode.INVALID_REQUEST]


def test_a_topic_requested_twice_is_returned_once(shared: RawClient) -> None:
    assert [topic.name for topic in metadata(shared, "base", "dotted.name", "base").topics] == ["base", "dotted.name"]


@pytest.mark.parametrize("version", [4, 9, 13])
def test_a_missing_topic_is_created_only_if_the_request_says_so(client: RawClient, version: int) -> None:
    for may_create in (False, True):
        assert topic_names(client) == set()
        (row,) = metadata(client, "t", create=may_create, version=version).topics
        assert (row.name, row.error_code, row.partitions) == ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ())
    row = once_known(client, "t", version)
    assert (row.error_code, row.partitions[0].leader_id) == (ErrorCode.NONE, 0)
    assert topic_names(client) == {"t"}


def once_known(client: RawClient, name: str, version: int = 13) -> MetadataResponseTopic:
    """Return Metadata's row of a topic that a Metadata request has created: the row appears after a while."""
    rows = (metadata(client, name, create=False, version=version).topics[0] for _ in range(100_000))
    found: MetadataResponseTopic = next(row for row in rows if row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return found


@pytest.mark.parametrize("version", [0, 1, 3])
def test_old_versions_always_request_creation(client: RawClient, version: int) -> None:
    first = metadata(client, "t", version=version).topics[0]
    second = once_known(client, "t", version)
    assert (first.error_code, second.error_code) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE)
    assert topic_names(client) == {"t"}


@pytest.mark.parametrize("name", ["t", "__consumer_offsets"])
def test_the_broker_may_forbid_creation(tmp_path: Path, name: str) -> None:
    overrides = {"auto.create.topics.enable": "false"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        (row,) = metadata(client, name, create=True).topics
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert topic_names(client) == set()


def test_two_clients_that_miss_the_same_topic_create_one(broker: ottla.Broker, client: RawClient) -> None:
    with RawClient(*address(broker)) as other:
        for one in (client, other):
            one.send(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)))
        codes = [one.receive().topics[0].error_code for one in (client, other)]
        first, second = (once_known(one, "t") for one in (client, other))
    # A late client may find it already.
    assert codes[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or codes[1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (first.error_code, first.topic_id) == (ErrorCode.NONE, second.topic_id)


@pytest.mark.parametrize(
    ("version", "asked", "cluster", "topic"),
    [
        (7, {}, -(2**31), -(2**31)),
        (9, {}, -(2**31), -(2**31)),
        (9, {"include_cluster_authorized_operations": True}, 8096, -(2**31)),
        (10, {"include_topic_authorized_operations": True}, -(2**31), 3576),
        (13, {"include_topic_authorized_operations": True}, -(2**31), 3576),
    ],
)
def test_allowed_operations_are_returned_on_request(
    shared: RawClient, version: int, asked: dict[str, bool], cluster: int, topic: int
) -> None:
    answer = metadata(shared, "base", version=version, **asked)
    assert (answer.cluster_authorized_operations, answer.topics[0].topic_authorized_operations) == (cluster, topic)
