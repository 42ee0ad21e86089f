"""Configs as clients see and change them. Expected values are what an Apache Kafka 4.3.1 broker answered."""

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.config import BrokerConfig, ConfigSource
from ottla.server.config_resources import (
    Change,
    ConfigEntry,
    Operation,
    alter_broker,
    alter_topic,
    check_topic_configs,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)

TOPIC, DYNAMIC, ALL_NODES, STATIC, DEFAULT = (
    ConfigSource.TOPIC,
    ConfigSource.DYNAMIC_BROKER,
    ConfigSource.DYNAMIC_DEFAULT_BROKER,
    ConfigSource.STATIC_BROKER,
    ConfigSource.DEFAULT,
)
NODE_0 = {"node.id": "0", "broker.id": "0"}


def config(
    static: dict[str, str] | None = None, all_nodes: dict[str, str] | None = None, node: dict[str, str] | None = None
) -> BrokerConfig:
    return BrokerConfig.from_texts(NODE_0 | (static or {}), cluster_dynamic=all_nodes or {}, node_dynamic=node or {})


def only(entries: list[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def story(entry: ConfigEntry) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]


# Describing topics


def test_a_topic_shows_all_options_but_the_hidden_one() -> None:
    names = [entry.name for entry in describe_topic(config(), {})]
    assert len(names) == 33
    assert "internal.segment.bytes" not in names


def test_a_hidden_option_shows_where_it_is_set() -> None:
    overrides = {"internal.segment.bytes": "1000"}
    hidden = only(describe_topic(config(), overrides, ["internal.segment.bytes"]))
    assert (hidden.value, story(hidden)) == ("1000", [("internal.segment.bytes", "1000", TOPIC)])
    assert only(describe_topic(config(), overrides, ["segment.bytes"])).value == "1073741824"
    assert len(describe_topic(config(), overrides)) == 34
    assert describe_topic(config(), {}, ["internal.segment.bytes"]) == []


@pytest.mark.parametrize("names", [None, (), []])
def test_no_names_mean_all(names: list[str] | None) -> None:
    assert len(describe_topic(config(), {}, names)) == 33


def test_unknown_names_are_left_out() -> None:
    assert [entry.name for entry in describe_topic(config(), {}, ["zork", "flush.ms"])] == ["flush.ms"]


@pytest.mark.parametrize(
    ("name", "value", "type_number", "synonyms"),
    [
        ("cleanup.policy", "delete", 7, [("log.cleanup.policy", "delete", DEFAULT)]),
        ("min.cleanable.dirty.ratio", "0.5", 6, [("log.cleaner.min.cleanable.ratio", "0.5", DEFAULT)]),
        ("compression.type", "producer", 2, [("compression.type", "producer", DEFAULT)]),
        ("preallocate", "false", 1, [("log.preallocate", "false", DEFAULT)]),
        ("segment.bytes", "1073741824", 3, [("log.segment.bytes", "1073741824", DEFAULT)]),
        # the strongest broker option has no value, so Kafka shows no synonym at all
        ("retention.ms", "604800000", 5, []),
        ("segment.ms", "604800000", 5, []),
        ("segment.jitter.ms", "0", 5, []),
        ("flush.ms", "9223372036854775807", 5, []),
        ("remote.storage.enable", "false", 1, []),
        ("leader.replication.throttled.replicas", "", 7, []),
    ],
)
def test_defaults_of_topics(
    name: str, value: str, type_number: int, synonyms: list[tuple[str, str | None, int]]
) -> None:
    entry = only(describe_topic(config(), {}, [name]))
    assert (entry.value, entry.source, entry.type) == (value, DEFAULT, type_number)
    assert (entry.read_only, entry.sensitive) == (False, False)
    assert story(entry) == synonyms


def test_overrides_show_as_kafka_writes_them_before_what_they_hide() -> None:
    overrides = {"segment.bytes": " 2097152 ", "preallocate": "TRUE", "min.cleanable.dirty.ratio": "1e-5"}
    overrides["cleanup.policy"] = "compact,compact"
    shown = {entry.name: entry for entry in describe_topic(config(), overrides)}
    assert shown["segment.bytes"].value == "2097152"
    assert shown["preallocate"].value == "true"
    assert shown["min.cleanable.dirty.ratio"].value == "1.0E-5"
    assert story(shown["cleanup.policy"]) == [
        ("cleanup.policy", "compact", TOPIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]
    assert all(shown[name].source == TOPIC for name in overrides)


def test_a_topic_shows_where_the_broker_has_its_value_from() -> None:
    broker = config(
        {"log.cleanup.policy": "compact"}, {"log.retention.ms": " 76400000"}, {"log.retention.ms": "86400000"}
    )
    retention = only(describe_topic(broker, {}, ["retention.ms"]))
    assert (retention.value, retention.source) == ("86400000", DYNAMIC)
    assert story(retention) == [
        ("log.retention.ms", "86400000", DYNAMIC),
        ("log.retention.ms", " 76400000", ALL_NODES),
        ("log.retention.hours", "168", DEFAULT),
    ]
    policy = only(describe_topic(broker, {}, ["cleanup.policy"]))
    assert (policy.value, policy.source) == ("compact", STATIC)


def test_a_stored_override_that_this_version_refuses_is_shown_as_it_is() -> None:
    assert only(describe_topic(config(), {"segment.bytes": "14"}, ["segment.bytes"])).value == "14"


# Describing brokers


def test_a_broker_shows_every_option_of_kafka() -> None:
    entries = describe_broker(config())
    assert len(entries) == 340
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)


@pytest.mark.parametrize(
    ("name", "value", "source", "read_only", "synonyms"),
    [
        ("log.retention.hours", "168", DEFAULT, True, [("log.retention.hours", "168", DEFAULT)]),
        ("node.id", "0", STATIC, True, [("node.id", "0", STATIC)]),
        ("broker.id", "0", STATIC, True, [("broker.id", "0", STATIC), ("broker.id", "-1", DEFAULT)]),
        ("log.dir", "/tmp/kafka-logs", DEFAULT, True, [("log.dir", "/tmp/kafka-logs", DEFAULT)]),
        ("log.dirs", "/d", STATIC, True, [("log.dirs", "/d", STATIC)]),
        ("log.retention.minutes", None, DEFAULT, True, []),
        ("advertised.listeners", None, DEFAULT, True, []),
        (
            "log.retention.ms",
            "86400000",
            DYNAMIC,
            False,
            [
                ("log.retention.ms", "86400000", DYNAMIC),
                ("log.retention.ms", " 76400000", ALL_NODES),
                ("log.retention.hours", "168", DEFAULT),
            ],
        ),
        (
            "log.cleaner.backoff.ms",
            "1000",
            STATIC,
            False,
            [("log.cleaner.backoff.ms", "1000", STATIC), ("log.cleaner.backoff.ms", "15000", DEFAULT)],
        ),
        ("super.users", None, DYNAMIC, True, [("super.users", None, DYNAMIC)]),
        ("ssl.key.password", None, STATIC, False, [("ssl.key.password", None, STATIC)]),
    ],
)
def test_options_of_a_broker(
    name: str, value: str | None, source: int, read_only: bool, synonyms: list[tuple[str, str | None, int]]
) -> None:
    broker = config(
        {"log.cleaner.backoff.ms": "1000", "log.dirs": "/d", "ssl.key.password": "hunter2"},
        {"log.retention.ms": " 76400000"},
        {"log.retention.ms": "86400000", "super.users": "User:a"},
    )
    entry = only(describe_broker(broker, [name]))
    assert (entry.value, entry.source, entry.read_only) == (value, source, read_only)
    assert story(entry) == synonyms


def test_secrets_and_unknown_names_never_show_their_value() -> None:
    broker = config({"ssl.keystore.password": "hunter2", "zork": "hunter2"}, {"sasl.jaas.config": "hunter2"})
    shown = describe_broker(broker) + describe_cluster_default(broker)
    assert "hunter2" not in repr(shown)
    assert {entry.name for entry in shown if entry.sensitive} >= {"ssl.keystore.password", "sasl.jaas.config", "zork"}


def test_an_unknown_name_has_no_type() -> None:
    assert only(describe_broker(config({"zork": "x"}), ["zork"])).type == 0


def test_hidden_options_show_where_they_are_set() -> None:
    name = "log.initial.task.delay.ms"
    assert describe_broker(config(), [name]) == []
    assert only(describe_broker(config({name: "5"}), [name])).value == "5"


def test_the_cluster_default_shows_only_what_is_set_there() -> None:
    broker = config({"num.partitions": "3"}, {"log.retention.ms": " 76400000"}, {"max.connections": "4"})
    entry = only(describe_cluster_default(broker))
    assert (entry.name, entry.value, entry.source, entry.read_only) == (
        "log.retention.ms",
        " 76400000",
        ALL_NODES,
        False,
    )
    assert story(entry) == [("log.retention.ms", " 76400000", ALL_NODES)]


def test_groups_show_what_the_broker_gives_them() -> None:
    entries = {entry.name: entry for entry in describe_group(config({"group.consumer.session.timeout.ms": "50000"}))}
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", STATIC)
    assert story(session) == [
        ("group.consumer.session.timeout.ms", "50000", STATIC),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    assert [entry.name for entry in describe_group(config(), ["share.heartbeat.interval.ms"])] == [
        "share.heartbeat.interval.ms"
    ]


def test_client_metrics_show_defaults() -> None:
    assert {entry.name: entry.value for entry in describe_client_metrics()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    assert describe_client_metrics(["zork"]) == []


# Changing topics


SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT


@pytest.mark.parametrize(
    ("present", "changes", "after"),
    [
        ({}, [("retention.ms", "5", SET)], {"retention.ms": "5"}),
        ({"retention.ms": "5"}, [("flush.ms", "6", SET)], {"retention.ms": "5", "flush.ms": "6"}),
        ({"retention.ms": "5"}, [("retention.ms", "6", SET)], {"retention.ms": "6"}),
        ({"retention.ms": "5"}, [("retention.ms", None, DELETE)], {}),
        ({}, [("retention.ms", None, DELETE)], {}),
        ({}, [("no.such.option", None, DELETE)], {}),
        ({}, [("cleanup.policy", "compact", APPEND)], {"cleanup.policy": "delete,compact"}),
        ({"cleanup.policy": "compact"}, [("cleanup.policy", "delete", APPEND)], {"cleanup.policy": "compact,delete"}),
        (
            {"cleanup.policy": "compact"},
            [("cleanup.policy", "delete, compact", APPEND)],
            {"cleanup.policy": "compact,delete"},
        ),
        (
            {"cleanup.policy": "compact,delete"},
            [("cleanup.policy", "compact,zork", SUBTRACT)],
            {"cleanup.policy": "delete"},
        ),
        ({}, [("cleanup.policy", "compact", SUBTRACT)], {"cleanup.policy": "delete"}),
        ({}, [("cleanup.policy", "delete", SUBTRACT)], {"cleanup.policy": ""}),
        ({"cleanup.policy": ""}, [("cleanup.policy", "compact", APPEND)], {"cleanup.policy": "compact"}),
    ],
)
def test_single_changes_of_a_topic(
    present: dict[str, str], changes: list[tuple[str, str | None, int]], after: dict[str, str]
) -> None:
    before = dict(present)
    assert alter_topic(config(), present, [Change(*change) for change in changes]) == after
    assert present == before


def test_append_starts_from_the_static_value_not_from_a_dynamic_one() -> None:
    change = [Change("cleanup.policy", "delete", APPEND)]
    assert alter_topic(config({"log.cleanup.policy": "compact"}), {}, change) == {"cleanup.policy": "compact,delete"}
    assert alter_topic(config(None, {"log.cleanup.policy": "compact"}), {}, change) == {"cleanup.policy": "delete"}


@pytest.mark.parametrize(
    ("changes", "code", "parts"),
    [
        ([("segment.bytes", "5", SET)], ErrorCode.INVALID_CONFIG, ["5", "segment.bytes", "1048576"]),
        ([("segment.bytes", "x", SET)], ErrorCode.INVALID_CONFIG, ["x", "segment.bytes", "INT"]),
        ([("zork", "x", SET)], ErrorCode.INVALID_CONFIG, ["Unknown topic config name: zork"]),
        ([("segment.bytes", "5", APPEND)], ErrorCode.INVALID_CONFIG, ["segment.bytes"]),
        ([("zork", "5", SUBTRACT)], ErrorCode.INVALID_CONFIG, ["zork"]),
        ([("cleanup.policy", "zork", APPEND)], ErrorCode.INVALID_CONFIG, ["zork", "cleanup.policy", "compact, delete"]),
        ([("segment.bytes", None, SET)], ErrorCode.INVALID_REQUEST, ["segment.bytes"]),
        ([("cleanup.policy", None, APPEND)], ErrorCode.INVALID_REQUEST, ["cleanup.policy"]),
        ([("flush.ms", "5", SET), ("flush.ms", None, DELETE)], ErrorCode.INVALID_REQUEST, ["flush.ms"]),
        ([("flush.ms", "5", 9)], ErrorCode.INVALID_REQUEST, ["9", "flush.ms"]),
        (
            [("min.compaction.lag.ms", "5", SET), ("max.compaction.lag.ms", "3", SET)],
            ErrorCode.INVALID_CONFIG,
            ["5", "min.compaction.lag.ms", "max.compaction.lag.ms=3"],
        ),
        ([("remote.storage.enable", "true", SET)], ErrorCode.INVALID_CONFIG, ["remote.storage.enable"]),
    ],
)
def test_refused_changes_of_a_topic(
    changes: list[tuple[str, str | None, int]], code: ErrorCode, parts: list[str]
) -> None:
    with pytest.raises(KafkaError) as error:
        alter_topic(config(), {"retention.ms": "5"}, [Change(*change) for change in changes])
    assert error.value.code == code
    assert all(part in error.value.message for part in parts)


def test_an_override_is_checked_beside_the_defaults_of_the_broker() -> None:
    broker = config({"log.cleaner.max.compaction.lag.ms": "4"})
    with pytest.raises(KafkaError) as error:
        check_topic_configs(broker, {"min.compaction.lag.ms": "5"})
    assert error.value.code == ErrorCode.INVALID_CONFIG


# Changing brokers


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ([("log.retention.ms", "1000", SET)], {"max.connections": "4", "log.retention.ms": "1000"}),
        ([("max.connections", None, DELETE)], {}),
        ([("node.id", None, DELETE)], {"max.connections": "4"}),
        ([("log.cleanup.policy", "compact", APPEND)], {"max.connections": "4", "log.cleanup.policy": "delete,compact"}),
        ([("zork", "x", SET)], {"max.connections": "4", "zork": "x"}),
        (
            [("listener.name.internal.ssl.keystore.location", "x", SET)],
            {"max.connections": "4", "listener.name.internal.ssl.keystore.location": "x"},
        ),
        ([("log.cleaner.threads", "2", SET)], {"max.connections": "4", "log.cleaner.threads": "2"}),
    ],
)
def test_single_changes_of_a_broker(changes: list[tuple[str, str | None, int]], after: dict[str, str]) -> None:
    present = {"max.connections": "4"}
    broker = config(None, None, present)
    assert alter_broker(broker, DYNAMIC, present, [Change(*change) for change in changes]) == after


@pytest.mark.parametrize(
    ("level", "changes", "code", "parts"),
    [
        (DYNAMIC, [("node.id", "9", SET)], ErrorCode.INVALID_REQUEST, ["node.id"]),
        (ALL_NODES, [("log.retention.hours", "9", SET)], ErrorCode.INVALID_REQUEST, ["log.retention.hours"]),
        (
            ALL_NODES,
            [("log.segment.bytes", "5", SET)],
            ErrorCode.INVALID_REQUEST,
            ["5", "log.segment.bytes", "1048576"],
        ),
        (DYNAMIC, [("log.segment.bytes", "x", SET)], ErrorCode.INVALID_REQUEST, ["x", "log.segment.bytes", "INT"]),
        (DYNAMIC, [("log.segment.bytes", None, SET)], ErrorCode.INVALID_REQUEST, ["log.segment.bytes"]),
        (DYNAMIC, [("log.segment.bytes", "5", APPEND)], ErrorCode.INVALID_CONFIG, ["log.segment.bytes"]),
        (ALL_NODES, [("sasl.jaas.config", "x", SET)], ErrorCode.INVALID_REQUEST, ["sasl.jaas.config", "broker id"]),
        (DYNAMIC, [("listeners", "A://h:1", SET)], ErrorCode.INVALID_REQUEST, ["listeners"]),
        (DYNAMIC, [("ssl.keystore.password", "x", SET)], ErrorCode.INVALID_REQUEST, ["ssl.keystore.password"]),
        (ALL_NODES, [("ssl.truststore.type", "x", SET)], ErrorCode.INVALID_REQUEST, ["listener.name."]),
        (DYNAMIC, [("log.cleaner.threads", "5", SET)], ErrorCode.INVALID_REQUEST, ["5", "log.cleaner.threads", "2"]),
        (DYNAMIC, [("log.cleaner.threads", "0", SET)], ErrorCode.INVALID_REQUEST, ["0", "log.cleaner.threads", "1"]),
        (
            DYNAMIC,
            [("log.cleaner.min.compaction.lag.ms", "5", SET), ("log.cleaner.max.compaction.lag.ms", "3", SET)],
            ErrorCode.INVALID_REQUEST,
            ["5", "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms=3"],
        ),
        (DYNAMIC, [("max.connections", "1", SET)] * 2, ErrorCode.INVALID_REQUEST, ["max.connections"]),
    ],
)
def test_refused_changes_of_a_broker(
    level: ConfigSource, changes: list[tuple[str, str | None, int]], code: ErrorCode, parts: list[str]
) -> None:
    with pytest.raises(KafkaError) as error:
        alter_broker(config(), level, {}, [Change(*change) for change in changes])
    assert error.value.code == code
    assert all(part in error.value.message for part in parts)


def test_a_change_for_all_nodes_is_checked_under_the_nodes_own_values() -> None:
    broker = config(None, None, {"log.cleaner.min.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError) as error:
        alter_broker(broker, ALL_NODES, {}, [Change("log.cleaner.max.compaction.lag.ms", "3")])
    assert error.value.code == ErrorCode.INVALID_REQUEST
