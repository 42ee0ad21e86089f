"""Configs as clients see them. Expected values are the answers of an Apache Kafka broker."""

import pytest

from ottla.server.config.broker_config import BrokerConfig, ConfigSource
from ottla.server.config.resources import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from support.noted import each_case

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


def test_a_topic_shows_all_options_except_the_hidden_one() -> None:
    names = [entry.name for entry in describe_topic(config(), {})]
    assert len(names) == 37
    assert "internal.segment.bytes" not in names


def test_a_set_hidden_option_is_shown() -> None:
    overrides = {"internal.segment.bytes": "1000"}
    hidden = only(describe_topic(config(), overrides, ["internal.segment.bytes"]))
    assert (hidden.value, story(hidden)) == ("1000", [("internal.segment.bytes", "1000", TOPIC)])
    assert only(describe_topic(config(), overrides, ["segment.bytes"])).value == "1073741824"
    assert len(describe_topic(config(), overrides)) == 38
    assert describe_topic(config(), {}, ["internal.segment.bytes"]) == []


@pytest.mark.parametrize("names", [None, (), []])
def test_no_names_select_all(names: list[str] | None) -> None:
    assert len(describe_topic(config(), {}, names)) == 37


def test_unknown_names_are_omitted() -> None:
    assert [entry.name for entry in describe_topic(config(), {}, ["zork", "flush.ms"])] == ["flush.ms"]


@each_case(
    "name, value, type_number, synonyms",
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
def test_defaults_of_topics_are_shown(
    name: str, value: str, type_number: int, synonyms: list[tuple[str, str | None, int]]
) -> None:
    entry = only(describe_topic(config(), {}, [name]))
    assert (entry.value, entry.source, entry.type) == (value, DEFAULT, type_number)
    assert (entry.read_only, entry.sensitive) == (False, False)
    assert story(entry) == synonyms


def test_overrides_are_shown_in_kafkas_format_before_the_values_they_hide() -> None:
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


def test_a_topic_shows_the_source_of_an_inherited_value() -> None:
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


def test_a_stored_override_that_this_version_refuses_is_shown_unchanged() -> None:
    assert only(describe_topic(config(), {"segment.bytes": "14"}, ["segment.bytes"])).value == "14"


# Describing brokers


def test_a_broker_shows_every_option_of_kafka() -> None:
    entries = describe_broker(config())
    assert len(entries) == 350
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)


@each_case(
    "name, value, source, read_only, synonyms",
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
def test_options_of_a_broker_are_shown(
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


def test_set_hidden_options_are_shown() -> None:
    name = "log.initial.task.delay.ms"
    assert describe_broker(config(), [name]) == []
    assert only(describe_broker(config({name: "5"}), [name])).value == "5"


def test_a_purely_dynamic_option_shows_no_default() -> None:
    name = "leader.replication.throttled.rate"
    entry = only(describe_broker(config(node={name: "5"}), [name]))
    assert story(entry) == [(name, "5", ConfigSource.DYNAMIC_BROKER)]


def test_the_cluster_default_shows_only_its_own_values() -> None:
    broker = config({"num.partitions": "3"}, {"log.retention.ms": " 76400000"}, {"max.connections": "4"})
    entry = only(describe_cluster_default(broker))
    assert (entry.name, entry.value, entry.source, entry.read_only) == (
        "log.retention.ms",
        " 76400000",
        ALL_NODES,
        False,
    )
    assert story(entry) == [("log.retention.ms", " 76400000", ALL_NODES)]


def test_groups_show_the_brokers_values() -> None:
    entries = {entry.name: entry for entry in describe_group(config({"group.consumer.session.timeout.ms": "50000"}))}
    session = entries["consumer.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", STATIC)
    assert story(session) == [
        ("group.consumer.session.timeout.ms", "50000", STATIC),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    assert [entry.name for entry in describe_group(config(), {}, ["share.heartbeat.interval.ms"])] == [
        "share.heartbeat.interval.ms"
    ]


def test_client_metrics_show_defaults() -> None:
    assert {entry.name: entry.value for entry in describe_client_metrics()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    assert describe_client_metrics({}, ["zork"]) == []


def test_values_of_a_group_or_subscription_precede_the_defaults() -> None:
    texts = {"consumer.session.timeout.ms": "50000"}
    session = only(describe_group(config(), texts, ["consumer.session.timeout.ms"]))
    assert (session.value, session.source, session.read_only) == ("50000", ConfigSource.GROUP, False)
    assert story(session) == [
        ("consumer.session.timeout.ms", "50000", ConfigSource.GROUP),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    metrics = only(describe_client_metrics({"metrics": "b, a"}, ["metrics"]))
    assert (metrics.value, metrics.source) == ("b,a", ConfigSource.CLIENT_METRICS)
    assert story(metrics) == [("metrics", "b,a", ConfigSource.CLIENT_METRICS)]
