"""Configs that clients may set on topics and brokers. Expected values are the answers of an Apache Kafka broker."""

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.config.broker_config import BrokerConfig, ConfigSource
from ottla.server.config.changes import (
    CONFIG_CHARS_MAX,
    CONFIGS_MAX,
    ConfigChange,
    ConfigOperation,
    alter_broker,
    alter_topic,
    check_topic_configs,
)
from support.noted import each_case

DYNAMIC, ALL_NODES = ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER


def config(
    static: dict[str, str] | None = None, all_nodes: dict[str, str] | None = None, node: dict[str, str] | None = None
) -> BrokerConfig:
    return BrokerConfig.from_texts(static or {}, cluster_dynamic=all_nodes or {}, node_dynamic=node or {})


# Changing topics


SET, DELETE, APPEND, SUBTRACT = (
    ConfigOperation.SET,
    ConfigOperation.DELETE,
    ConfigOperation.APPEND,
    ConfigOperation.SUBTRACT,
)


@each_case(
    "present, changes, after",
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
def test_single_changes_of_a_topic_are_applied(
    present: dict[str, str], changes: list[tuple[str, str | None, int]], after: dict[str, str]
) -> None:
    before = dict(present)
    assert alter_topic(config(), present, [ConfigChange(*change) for change in changes]) == after
    assert present == before


def test_append_starts_from_the_static_value_and_not_a_dynamic_one() -> None:
    change = [ConfigChange("cleanup.policy", "delete", APPEND)]
    assert alter_topic(config({"log.cleanup.policy": "compact"}), {}, change) == {"cleanup.policy": "compact,delete"}
    assert alter_topic(config(None, {"log.cleanup.policy": "compact"}), {}, change) == {"cleanup.policy": "delete"}


@each_case(
    "changes, code, parts",
    [
        ([("segment.bytes", "5", SET)], ErrorCode.INVALID_CONFIG, ["5", "segment.bytes", "1048576"]),
        ([("segment.bytes", "x", SET)], ErrorCode.INVALID_CONFIG, ["x", "segment.bytes", "INT"]),
        ([("zork", "x", SET)], ErrorCode.INVALID_CONFIG, ["Unknown topic config name: zork"]),
        ([("cleanup.polcy", "x", SET)], ErrorCode.INVALID_CONFIG, ["cleanup.polcy; did you mean cleanup.policy?"]),
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
def test_invalid_changes_of_a_topic_are_refused(
    changes: list[tuple[str, str | None, int]], code: ErrorCode, parts: list[str]
) -> None:
    with pytest.raises(KafkaError) as error:
        alter_topic(config(), {"retention.ms": "5"}, [ConfigChange(*change) for change in changes])
    assert error.value.code == code
    assert all(part in error.value.message for part in parts)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_an_internal_topic_takes_no_option_of_ottlas(topic: str) -> None:
    present, change = {"cleanup.policy": "compact"}, ConfigChange("ottla.key.retention.ms", "5")
    with pytest.raises(KafkaError, match=f"5 for configuration ottla.key.retention.ms: .* {topic}") as error:
        alter_topic(config(), present, [change], topic)
    assert error.value.code == ErrorCode.INVALID_CONFIG
    assert alter_topic(config(), present, [change], "orders") == {**present, "ottla.key.retention.ms": "5"}


REPLICAS = "leader.replication.throttled.replicas"
LONG_LIST = ",".join(f"{index:05}:0" for index in range(4_000))


@pytest.mark.parametrize(
    ("present", "change"),
    [
        ({}, (REPLICAS, f"{LONG_LIST},{LONG_LIST}", SET)),
        # Each of them alone is accepted.
        ({REPLICAS: LONG_LIST}, (REPLICAS, LONG_LIST.replace(":0", ":1"), APPEND)),
    ],
)
def test_a_value_too_long_for_a_response_is_refused(
    present: dict[str, str], change: tuple[str, str | None, int]
) -> None:
    with pytest.raises(KafkaError) as error:
        alter_topic(config(), present, [ConfigChange(*change)])
    assert error.value.code == ErrorCode.INVALID_CONFIG
    assert "32767" in error.value.message
    with pytest.raises(KafkaError) as error:
        alter_broker(config(), DYNAMIC, {}, [ConfigChange("no.such.option", "€" * 11_000, SET)])
    assert error.value.code == ErrorCode.INVALID_CONFIG
    assert "33000" in error.value.message


def test_the_number_of_unknown_names_a_broker_keeps_is_limited() -> None:
    present = {f"no.such.{number}": "x" for number in range(CONFIGS_MAX)}
    assert alter_broker(config(None, None, present), DYNAMIC, present, [ConfigChange("no.such.0", "y", SET)])
    with pytest.raises(KafkaError) as error:
        alter_broker(config(None, None, present), DYNAMIC, present, [ConfigChange("one.more", "y", SET)])
    assert error.value.code == ErrorCode.POLICY_VIOLATION
    assert str(CONFIGS_MAX) in error.value.message


def test_the_total_length_of_stored_values_is_limited() -> None:
    item = "x" * 30_000
    present = {f"no.such.{number}": item for number in range(2)}
    assert alter_broker(config(None, None, present), DYNAMIC, present, [ConfigChange("one.more", "y", SET)])
    with pytest.raises(KafkaError) as error:
        alter_broker(config(None, None, present), DYNAMIC, present, [ConfigChange("one.more", item, SET)])
    assert error.value.code == ErrorCode.POLICY_VIOLATION
    assert str(CONFIG_CHARS_MAX) in error.value.message and "90026" in error.value.message


class Counted(str):
    """A text, or an item of it, that counts the comparisons of two items."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def split(self, *arguments: Any, **named: Any) -> list[str]:
        return [Counted(item) for item in str.split(self, *arguments, **named)]

    def strip(self, *arguments: Any) -> str:
        return Counted(str.strip(self, *arguments))


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_long_list_is_edited_without_pairwise_comparisons(operation: ConfigOperation) -> None:
    items = [f"{index}:0" for index in range(1_000)]
    present = {REPLICAS: Counted(",".join(items))}
    change = ConfigChange(REPLICAS, Counted(",".join(items[::-2])), operation)
    Counted.compared = 0
    after = alter_topic(config(), present, [change])
    assert after == {REPLICAS: ",".join(items if operation is APPEND else items[::2])}
    assert Counted.compared < 5 * len(items)


def test_an_override_is_checked_together_with_the_brokers_defaults() -> None:
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
def test_single_changes_of_a_broker_are_applied(
    changes: list[tuple[str, str | None, int]], after: dict[str, str]
) -> None:
    present = {"max.connections": "4"}
    broker = config(None, None, present)
    assert alter_broker(broker, DYNAMIC, present, [ConfigChange(*change) for change in changes]) == after


@each_case(
    "level, changes, code, parts",
    [
        (DYNAMIC, [("node.id", "9", SET)], ErrorCode.INVALID_REQUEST, ["node.id"]),
        (ALL_NODES, [("log.retention.hours", "9", SET)], ErrorCode.INVALID_REQUEST, ["log.retention.hours"]),
        (
            ALL_NODES,
            [("log.segment.bytes", "5", SET)],
            ErrorCode.INVALID_REQUEST,
            ["5", "log.segment.bytes", "1048576"],
        ),
        (DYNAMIC, [("log.retention.ms", "0", SET)], ErrorCode.INVALID_REQUEST, ["0", "log.retention.ms", "at least 1"]),
        (DYNAMIC, [("log.segment.bytes", "x", SET)], ErrorCode.INVALID_REQUEST, ["x", "log.segment.bytes", "INT"]),
        (DYNAMIC, [("log.segment.bytes", None, SET)], ErrorCode.INVALID_REQUEST, ["log.segment.bytes"]),
        (DYNAMIC, [("log.segment.bytes", "5", APPEND)], ErrorCode.INVALID_CONFIG, ["log.segment.bytes"]),
        (ALL_NODES, [("sasl.jaas.config", "x", SET)], ErrorCode.INVALID_REQUEST, ["sasl.jaas.config", "broker ID"]),
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
        *(
            # With it the broker could accept no connection, as it could count none.
            (
                ALL_NODES,
                [("max.connections.per.ip.overrides", f"localhost:{limit}", SET)],
                ErrorCode.INVALID_REQUEST,
                ["max.connections.per.ip.overrides", "HOST:NUMBER"],
            )
            for limit in ("9" * 5_000, str(2**31))
        ),
        *(
            (DYNAMIC, [(name, "0", SET)], ErrorCode.INVALID_REQUEST, ["0", name, "at least 1"])
            for name in (
                "max.connections",
                "max.connection.creation.rate",
                "max.connections.per.ip",
                "listener.name.plaintext.max.connections",
                "listener.name.plaintext.max.connection.creation.rate",
            )
        ),
        (DYNAMIC, [("max.connections", "1", SET)] * 2, ErrorCode.INVALID_REQUEST, ["max.connections"]),
    ],
)
def test_invalid_changes_of_a_broker_are_refused(
    level: ConfigSource, changes: list[tuple[str, str | None, int]], code: ErrorCode, parts: list[str]
) -> None:
    with pytest.raises(KafkaError) as error:
        alter_broker(config(), level, {}, [ConfigChange(*change) for change in changes])
    assert error.value.code == code
    assert all(part in error.value.message for part in parts)


def test_a_change_for_all_nodes_is_checked_with_each_nodes_values() -> None:
    broker = config(None, None, {"log.cleaner.min.compaction.lag.ms": "5"})
    with pytest.raises(KafkaError) as error:
        alter_broker(broker, ALL_NODES, {}, [ConfigChange("log.cleaner.max.compaction.lag.ms", "3")])
    assert error.value.code == ErrorCode.INVALID_REQUEST


WEEK_MS = 604_800_000


@each_case(
    "static, texts, told",
    [
        ({}, {"log.local.retention.ms": str(WEEK_MS)}, None),
        ({}, {"log.local.retention.ms": str(WEEK_MS + 1)}, f"more than log.retention.ms property value: {WEEK_MS}"),
        ({}, {"log.local.retention.ms": "-1"}, f"must not be -1 as log.retention.ms value is set as {WEEK_MS}."),
        ({}, {"log.local.retention.ms": "-1", "log.retention.ms": "-1"}, None),
        ({}, {"log.local.retention.bytes": "6"}, None),
        ({}, {"log.local.retention.bytes": "6", "log.retention.bytes": "5"}, "log.retention.bytes property value: 5"),
        ({}, {"log.remote.copy.lag.ms": str(WEEK_MS)}, None),
        ({}, {"log.remote.copy.lag.ms": str(WEEK_MS + 1)}, f"log.local.retention.ms (effective value: {WEEK_MS})"),
        ({}, {"log.remote.copy.lag.ms": str(WEEK_MS + 1), "log.retention.ms": "-1"}, None),
        ({}, {"log.remote.copy.lag.ms": "20", "log.local.retention.ms": "10"}, "ms (effective value: 10)"),
        ({}, {"log.remote.copy.lag.bytes": "20", "log.retention.bytes": "10"}, "bytes (effective value: 10)"),
        ({}, {"log.remote.copy.lag.bytes": "20", "log.local.retention.bytes": "10"}, "bytes (effective value: 10)"),
        # A start takes it; a change of another default of topics then does not.
        ({"log.remote.copy.lag.bytes": "20", "log.local.retention.bytes": "10"}, {"max.connections": "5"}, None),
        (
            {"log.remote.copy.lag.bytes": "20", "log.local.retention.bytes": "10"},
            {"log.retention.ms": "5"},
            "bytes (effective value: 10)",
        ),
    ],
)
def test_defaults_of_tiered_logs_do_not_contradict_each_other(
    static: dict[str, str], texts: dict[str, str], told: str | None
) -> None:
    changes = [ConfigChange(name, text) for name, text in texts.items()]
    if told is None:
        assert alter_broker(config(static), ALL_NODES, {}, changes) == texts
        return
    with pytest.raises(KafkaError) as error:
        alter_broker(config(static), ALL_NODES, {}, changes)
    assert error.value.code == ErrorCode.INVALID_REQUEST
    assert error.value.message.endswith(told)
