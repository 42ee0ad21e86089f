"""Configs of groups: what the broker's options give them, which values are refused. Expected values are Apache Kafka 4.4.0's."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.config.broker_config import BrokerConfig, ConfigSource
from ottla.server.config.group_configs import GROUP_OPTIONS, check_group_configs
from ottla.server.config.resources import ConfigEntry, describe_group
from ottla.storage.topics.options import OptionType
from support.noted import each_case

MAX_INT, MAX_LONG = str(2**31 - 1), str(2**63 - 1)
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
TAGS = "streams.rack.aware.assignment.tags"
TASK_OFFSETS = "streams.task.offset.interval.ms"
WARM_UPS = "streams.num.warmup.replicas"
OFFLOAD = tuple(f"{kind}.assignor.offload.enable" for kind in ("consumer", "share", "streams"))
HIDDEN = {*OFFLOAD, "streams.acceptable.recovery.lag", WARM_UPS, TASK_OFFSETS}


def config(static: dict[str, str] | None = None, **dynamic: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.from_texts(static or {}, **dynamic)


def described(broker: BrokerConfig, texts: dict[str, str], *names: str) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in describe_group(broker, texts, names)}


@each_case(
    "name, type, default, broker",
    [
        ("errors.deadletterqueue.copy.record.enable", OptionType.BOOLEAN, "false", None),
        (DEAD_LETTERS, OptionType.STRING, "", None),
        ("streams.assignor.name", OptionType.STRING, "sticky", "group.streams.assignors"),
        (TAGS, OptionType.LIST, "", f"group.{TAGS}"),
        *((name, OptionType.BOOLEAN, "true", f"group.{name}") for name in OFFLOAD),
        ("streams.acceptable.recovery.lag", OptionType.LONG, "10000", "group.streams.acceptable.recovery.lag"),
        (WARM_UPS, OptionType.INT, "2", f"group.{WARM_UPS}"),
        (TASK_OFFSETS, OptionType.INT, "60000", f"group.{TASK_OFFSETS}"),
    ],
)
def test_a_config_is_shown_with_the_option_that_gives_its_default(
    name: str, type: OptionType, default: str, broker: str | None
) -> None:
    own = {"streams.assignor.name": "sticky", WARM_UPS: "3", "streams.acceptable.recovery.lag": "7"}
    text = own.get(name, {OptionType.BOOLEAN: "false", OptionType.INT: "20000"}.get(type, "x"))
    entry = described(config(), {name: text}, name)[name]
    assert (entry.value, entry.type, entry.read_only, entry.source) == (text, type, False, ConfigSource.GROUP)
    assert entry.synonyms[1].name == (broker or name)
    assert (entry.synonyms[1].value, entry.synonyms[1].source) == (default, ConfigSource.DEFAULT)


def test_a_hidden_config_is_shown_where_the_group_or_its_broker_sets_it() -> None:
    assert GROUP_OPTIONS.keys() - described(config(), {}).keys() == HIDDEN
    assert described(config(), {}, WARM_UPS) == {}
    assert described(config(), {WARM_UPS: "3"}).keys() == GROUP_OPTIONS.keys() - HIDDEN | {WARM_UPS}
    broker = config(cluster_dynamic={"group.share.assignor.offload.enable": "false"})
    entry = described(broker, {})["share.assignor.offload.enable"]
    assert (entry.value, entry.source) == ("false", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert described(broker, {}, TAGS).keys() == {TAGS}


@each_case(
    "name, values",
    [
        (DEAD_LETTERS, ["", "x", "dlq.x", "_x", "a b", "a/b", "..", "x" * 250]),
        ("errors.deadletterqueue.copy.record.enable", ["true", "FALSE"]),
        *((name, ["true", "FALSE"]) for name in OFFLOAD),
        ("streams.acceptable.recovery.lag", ["0", "2147483648", MAX_LONG]),
        ("streams.assignor.name", ["sticky", " sticky "]),
        (WARM_UPS, ["0", "20"]),
        (TAGS, ["", "a", "a, b", "a,A"]),
        (TASK_OFFSETS, ["15000", MAX_INT]),
    ],
)
def test_a_value_is_taken(name: str, values: list[str]) -> None:
    for value in values:
        assert check_group_configs(config(), {name: value}).texts == {name: value}


def not_registered(shown: str) -> str:
    return f"streams.assignor.name '{shown}' is not a registered task assignor. Registered assignors are: [sticky]."


@each_case(
    "name, value, told",
    [
        (DEAD_LETTERS, "__x", f"{DEAD_LETTERS}: DLQ topic name must not start with '__'"),
        (DEAD_LETTERS, " __", f"{DEAD_LETTERS}: DLQ topic name must not start with '__'"),
        *((name, "yes", f"Invalid value yes for configuration {name}: must be true or false") for name in OFFLOAD),
        (
            "streams.acceptable.recovery.lag",
            "-1",
            "Invalid value -1 for configuration streams.acceptable.recovery.lag: Value must be at least 0",
        ),
        ("streams.assignor.name", "", not_registered("")),
        ("streams.assignor.name", "Sticky", not_registered("Sticky")),
        ("streams.assignor.name", "sticky,sticky", not_registered("sticky,sticky")),
        (WARM_UPS, "-1", f"Invalid value -1 for configuration {WARM_UPS}: Value must be at least 0"),
        (WARM_UPS, "21", f"{WARM_UPS} must be less than or equal to 20"),
        (TAGS, "a,a", f"{TAGS} must not contain duplicate tag keys."),
        (TAGS, " a , a ", f"{TAGS} must not contain duplicate tag keys."),
        (TAGS, ",", f"{TAGS} must not contain duplicate tag keys."),
        (TAGS, "a,,b", f"Invalid value a,,b for configuration {TAGS}: must not contain empty items"),
        (TASK_OFFSETS, "0", f"Invalid value 0 for configuration {TASK_OFFSETS}: Value must be at least 1"),
        (TASK_OFFSETS, "14999", f"{TASK_OFFSETS} must be greater than or equal to 15000"),
        ("streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"),
        ("share.delivery.count.limit", "11", "share.delivery.count.limit must be in the range 2 to 10 inclusive."),
        (
            "consumer.session.timeout.ms",
            "1",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
    ],
)
def test_a_value_is_refused_in_the_words_of_kafka(name: str, value: str, told: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_group_configs(config(), {name: value})
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, told)


def test_the_bounds_are_those_of_the_broker() -> None:
    limit, lowest = "share.delivery.count.limit", "group.streams.min.task.offset.interval.ms"
    broker = config(
        {"group.streams.max.warmup.replicas": "30", lowest: "5", "group.share.max.delivery.count.limit": "25"}
    )
    check_group_configs(broker, {WARM_UPS: "30", TASK_OFFSETS: "5", limit: "25"})
    with pytest.raises(KafkaError, match=r"must be less than or equal to 30"):
        check_group_configs(broker, {WARM_UPS: "31"})
