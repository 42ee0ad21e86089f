"""Configs of groups, client metrics subscriptions and loggers. Answers are those of an Apache Kafka 4.3.1 broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import AlterableConfig as Replacing
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as Replaced
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.storage.disk.paths import CATALOG_FILE
from support.broker.conversation import address
from support.broker.raw_client import RawClient

LOGGER, METRICS, GROUP = 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
REQUEST, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
SESSION, HEARTBEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ottla.Broker(str(tmp_path), profile="kafka") as broker, RawClient(*address(broker)) as client:
        yield client


def change(client: RawClient, kind: int, name: str, *wished: tuple[Any, ...], validate_only: bool = False) -> Any:
    """Change configs, each (name, operation, value), and return the resource's row."""
    configs = tuple(AlterableConfig(name=each[0], config_operation=each[1], value=each[2]) for each in wished)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    return client.ask(request).responses[0]


def replace(client: RawClient, kind: int, name: str, **texts: str) -> Any:
    """Replace all configs (underscores stand for dots), and return the resource's row."""
    configs = tuple(Replacing(name=key.replace("_", "."), value=text) for key, text in texts.items())
    resource = Replaced(resource_type=kind, resource_name=name, configs=configs)
    return client.ask(AlterConfigsRequest(resources=(resource,))).responses[0]


def values(client: RawClient, kind: int, name: str, *keys: str) -> dict[str, tuple[str, int]]:
    """Return values and sources."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    (result,) = client.ask(DescribeConfigsRequest(resources=(resource,))).results
    assert result.error_code == 0
    return {config.name: (config.value, config.config_source) for config in result.configs}


def listed(client: RawClient, *kinds: int, version: int = 1) -> list[str]:
    rows = client.ask(ListConfigResourcesRequest(resource_types=kinds), version).config_resources
    return [row.resource_name for row in rows]


# (type, name, config, operation, value) -> code, and the beginning of the message
REFUSED: list[tuple[int, str, str, int, str | None, ErrorCode, str]] = [
    (GROUP, "", SESSION, SET, "50000", REQUEST, "Default group resources are not allowed."),
    (GROUP, "g", SESSION, SET, "1", CONFIG, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
    (GROUP, "g", SESSION, SET, "100000", CONFIG, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
    (GROUP, "g", HEARTBEAT, SET, "1", CONFIG, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
    (GROUP, "g", HEARTBEAT, SET, "16000", CONFIG, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
    (GROUP, "g", INTERVAL, SET, "16000", CONFIG, f"{INTERVAL} must be in the range 0 to 15000 inclusive."),
    (GROUP, "g", INTERVAL, SET, "-1", CONFIG, f"Invalid value -1 for configuration {INTERVAL}"),
    (GROUP, "g", SESSION, SET, "abc", CONFIG, f"Invalid value abc for configuration {SESSION}"),
    (GROUP, "g", SESSION, SET, "", CONFIG, f"Invalid value  for configuration {SESSION}"),
    (GROUP, "g", SESSION, SET, None, REQUEST, f"Null value not supported for : {SESSION}"),
    (GROUP, "g", SESSION, APPEND, "1", CONFIG, "APPEND and SUBTRACT require a list"),
    (GROUP, "g", "streams.rack.aware.assignment.tags", APPEND, "a", CONFIG, "APPEND and SUBTRACT require a list"),
    (
        GROUP,
        "g",
        "consumer.sesion.timeout.ms",
        SET,
        "1",
        CONFIG,
        "Unknown group config name: consumer.sesion.timeout.ms",
    ),
    (
        GROUP,
        "g",
        "share.session.timeout.ms",
        SET,
        "5000",
        CONFIG,
        "share.session.timeout.ms must be in the range 45000 t",
    ),
    (
        GROUP,
        "g",
        "share.session.timeout.ms",
        SET,
        "60001",
        CONFIG,
        "share.session.timeout.ms must be in the range 45000 t",
    ),
    (GROUP, "g", "share.delivery.count.limit", SET, "1", CONFIG, "Invalid value 1 for configuration share.delivery"),
    (GROUP, "g", "share.record.lock.duration.ms", SET, "1000", CONFIG, "share.record.lock.duration.ms must be in the"),
    (GROUP, "g", "share.auto.offset.reset", SET, "none", CONFIG, "Invalid value none for configuration share.auto.off"),
    (GROUP, "g", "share.auto.offset.reset", SET, "by_duration:-PT1S", CONFIG, "Invalid value by_duration:-PT1S for"),
    (GROUP, "g", "share.isolation.level", SET, "READ_COMMITTED", CONFIG, "Invalid value READ_COMMITTED for configura"),
    (GROUP, "g", "share.renew.acknowledge.enable", SET, "x", CONFIG, "Invalid value x for configuration share.renew"),
    (
        GROUP,
        "g",
        "streams.num.standby.replicas",
        SET,
        "3",
        CONFIG,
        "streams.num.standby.replicas must be less than or equal to 2",
    ),
    (
        GROUP,
        "g",
        "streams.num.standby.replicas",
        SET,
        "-1",
        CONFIG,
        "Invalid value -1 for configuration streams.num.st",
    ),
    (
        GROUP,
        "g",
        "streams.session.timeout.ms",
        SET,
        "60001",
        CONFIG,
        "streams.session.timeout.ms must be in the range 45000",
    ),
    (
        GROUP,
        "g",
        "streams.heartbeat.interval.ms",
        SET,
        "1",
        CONFIG,
        "streams.heartbeat.interval.ms must be in the range 5000",
    ),
    (
        GROUP,
        "g",
        "streams.initial.rebalance.delay.ms",
        SET,
        "-1",
        CONFIG,
        "Invalid value -1 for configuration streams.",
    ),
    (METRICS, "", "interval.ms", SET, "100", REQUEST, "Subscription name can't be empty"),
    (METRICS, "m", "interval.ms", SET, "99", REQUEST, "Invalid value 99 for interval.ms, interval must be between 100"),
    (METRICS, "m", "interval.ms", SET, "3600001", REQUEST, "Invalid value 3600001 for interval.ms, interval must be b"),
    (METRICS, "m", "interval.ms", SET, "x", CONFIG, "Invalid value x for configuration interval.ms"),
    (METRICS, "m", "metrics", APPEND, "b", CONFIG, "APPEND and SUBTRACT require a list"),
    (METRICS, "m", "match", SET, "foo=a", CONFIG, "Illegal client matching pattern: foo=a"),
    (METRICS, "m", "match", SET, "client_id", CONFIG, "Illegal client matching pattern: client_id"),
    (METRICS, "m", "match", SET, "client_id=[", CONFIG, "Illegal client matching pattern: client_id=["),
    (METRICS, "m", "match", SET, "client_id=a=b", CONFIG, "Illegal client matching pattern: client_id=a=b"),
    (
        METRICS,
        "m",
        "match",
        SET,
        ",".join(f"client_id={n}" for n in range(21)),
        CONFIG,
        "Invalid value for match: too many patterns (21",
    ),
    (METRICS, "m", "foo", SET, "1", REQUEST, "Unknown client metrics configuration: foo"),
    (LOGGER, "1", "root", SET, "DEBUG", REQUEST, "Unexpected node id. Expected 0, but received 1"),
    (LOGGER, "", "root", SET, "DEBUG", REQUEST, "Node id must be an integer, but it is: "),
    (LOGGER, "x", "root", SET, "DEBUG", REQUEST, "Node id must be an integer, but it is: x"),
    (
        LOGGER,
        "0",
        "ottla.configs",
        SET,
        "debug",
        CONFIG,
        "Cannot set the log level of ottla.configs to debug as it is not",
    ),
    (
        LOGGER,
        "0",
        "ottla.configs",
        SET,
        "OFF",
        CONFIG,
        "Cannot set the log level of ottla.configs to OFF as it is not a",
    ),
    (LOGGER, "0", "ottla.configs", SET, None, REQUEST, "Null value not supported for : ottla.configs"),
    (LOGGER, "0", "ottla.configs", APPEND, "DEBUG", REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER"),
    (LOGGER, "0", "root", DELETE, None, REQUEST, "Removing the log level of the root logger is not allowed"),
    (LOGGER, "0", "nope", SET, "DEBUG", CONFIG, "Logger nope does not exist!"),
    (LOGGER, "0", "nope", DELETE, None, CONFIG, "Logger nope does not exist!"),
]


def test_unsupported_changes_are_refused_as_by_kafka_and_change_nothing(client: RawClient) -> None:
    before = values(client, LOGGER, "0", "root")["root"]
    for kind, name, config, operation, value, code, told in REFUSED:
        answer = change(client, kind, name, (config, operation, value))
        assert answer.error_code == code, (kind, name, config, value)
        assert answer.error_message.startswith(told), answer.error_message
    assert listed(client, GROUP, METRICS) == []
    assert values(client, LOGGER, "0", "root", "ottla.configs") == {"root": before, "ottla.configs": before}


@pytest.mark.parametrize(
    ("kind", "wished", "others"),
    [
        (GROUP, {SESSION: "50000", HEARTBEAT: "6000"}, {INTERVAL: ("1000", 5)}),
        (
            METRICS,
            {"metrics": "org.apache.kafka.producer.,*", "match": "client_id=a.*"},
            {"interval.ms": ("300000", 5)},
        ),
    ],
)
def test_configs_are_set_shown_listed_and_removed(
    client: RawClient, kind: int, wished: dict[str, str], others: dict[str, tuple[str, int]]
) -> None:
    source = {GROUP: 8, METRICS: 7}[kind]
    tried = change(client, kind, "it", *((name, SET, text) for name, text in wished.items()), validate_only=True)
    assert (tried.error_code, listed(client, kind)) == (0, [])
    assert change(client, kind, "it", *((name, SET, text) for name, text in wished.items())).error_code == 0
    shown = {name: (text, source) for name, text in wished.items()}
    assert values(client, kind, "it", *wished, *others) == shown | others
    assert listed(client, kind) == ["it"]
    assert (listed(client, version=0) == ["it"]) == (kind == METRICS)
    assert values(client, kind, "another", *wished).keys() == wished.keys()
    assert all(value[1] == 5 for value in values(client, kind, "another", *wished).values())
    assert change(client, kind, "it", *((name, DELETE, None) for name in wished)).error_code == 0
    assert listed(client, kind) == []


def test_alter_configs_replaces_earlier_values(client: RawClient) -> None:
    assert replace(client, GROUP, "g", consumer_session_timeout_ms="50000").error_code == 0
    assert replace(client, GROUP, "g", consumer_heartbeat_interval_ms="6000").error_code == 0
    assert values(client, GROUP, "g", SESSION, HEARTBEAT) == {SESSION: ("45000", 5), HEARTBEAT: ("6000", 8)}
    assert replace(client, GROUP, "g").error_code == 0
    assert listed(client, GROUP) == []


def test_alter_configs_does_not_support_loggers(client: RawClient) -> None:
    answer = replace(client, LOGGER, "0", root="DEBUG")
    assert (answer.error_code, answer.error_message) == (REQUEST, "Unknown resource type 8")


def test_configs_of_groups_and_subscriptions_survive_restarts_except_invalid_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker(str(tmp_path), profile="kafka") as broker, RawClient(*address(broker)) as client:
        assert change(client, GROUP, "g", (SESSION, SET, "50000")).error_code == 0
        assert change(client, GROUP, "h", (HEARTBEAT, SET, "7000")).error_code == 0
        assert change(client, METRICS, "m", ("interval.ms", SET, "100")).error_code == 0
    caplog.set_level(logging.WARNING)
    bound = {"group.consumer.min.session.timeout.ms": "45000", "group.consumer.max.session.timeout.ms": "46000"}
    with (
        ottla.Broker(str(tmp_path), profile="kafka", overrides=bound) as broker,
        RawClient(*address(broker)) as client,
    ):
        assert values(client, GROUP, "h", HEARTBEAT) == {HEARTBEAT: ("7000", 8)}
        assert values(client, METRICS, "m", "interval.ms") == {"interval.ms": ("100", 7)}
        assert values(client, GROUP, "g", SESSION) == {SESSION: ("45000", 5)}
        assert change(client, GROUP, "g", (SESSION, DELETE, None)).error_code == 0
    assert "50000" not in (tmp_path / CATALOG_FILE).read_text()
    (line,) = (record.getMessage() for record in caplog.records if "group g" in record.getMessage())
    assert line.startswith(
        "stored configs of group g ignored: consumer.session.timeout.ms must be in the range 45000 to 46000"
    )


def test_many_groups_in_one_request_are_one_write(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        before = broker.inner.services.cluster.changes
        resources = tuple(
            AlterConfigsResource(
                resource_type=GROUP,
                resource_name=f"g{number}",
                configs=(AlterableConfig(name=SESSION, config_operation=SET, value="50000"),),
            )
            for number in range(200)
        )
        assert not any(
            row.error_code for row in client.ask(IncrementalAlterConfigsRequest(resources=resources)).responses
        )
        assert broker.inner.services.cluster.changes == before + 1
        assert len(listed(client, GROUP)) == 200
    assert (tmp_path / CATALOG_FILE).read_text().count("consumer.session.timeout.ms") == 200


@pytest.mark.parametrize(
    ("kind", "config", "bound"),
    [
        (GROUP, (SESSION, "50000"), "server.handlers.other_configs.GROUPS_MAX"),
        (METRICS, ("interval.ms", "1000"), "server.telemetry.subscriptions.SUBSCRIPTIONS_MAX"),
    ],
)
def test_the_total_of_existing_and_requested_configs_is_limited(
    client: RawClient, monkeypatch: pytest.MonkeyPatch, kind: int, config: tuple[str, str], bound: str
) -> None:
    monkeypatch.setattr(f"ottla.{bound}", 3)
    configs = (AlterableConfig(name=config[0], config_operation=SET, value=config[1]),)
    resources = tuple(
        AlterConfigsResource(resource_type=kind, resource_name=f"r{number}", configs=configs) for number in range(5)
    )
    rows = client.ask(IncrementalAlterConfigsRequest(resources=resources)).responses
    assert [row.error_code for row in rows] == [0, 0, 0, *[ErrorCode.POLICY_VIOLATION] * 2]
    assert len(listed(client, kind)) == 3


def test_ids_of_groups_with_configs_are_limited_in_total(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.handlers.other_configs.GROUP_ID_CHARS_MAX", 10)
    assert change(client, GROUP, "g" * 9, (SESSION, SET, "50000")).error_code == 0
    assert change(client, GROUP, "hh", (SESSION, SET, "50000")).error_code == ErrorCode.POLICY_VIOLATION
    assert change(client, GROUP, "h", (SESSION, SET, "50000")).error_code == 0


def test_the_number_of_metrics_in_a_subscription_is_limited(client: RawClient) -> None:
    names = [f"m{number}" for number in range(101)]
    assert change(client, METRICS, "m", ("metrics", SET, ",".join(names[:100]))).error_code == 0
    row = change(client, METRICS, "m", ("metrics", SET, ",".join(names)))
    assert (row.error_code, row.error_message) == (
        CONFIG,
        "Invalid value for metrics: too many names (101, limit 100)",
    )


def test_a_log_level_applies_at_once_until_the_broker_stops(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ours, configs = logging.getLogger("ottla"), logging.getLogger("ottla.configs")
    before = ours.level, configs.level
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert change(client, LOGGER, "0", ("root", SET, "ERROR"), validate_only=True).error_code == 0
        assert ours.level == before[0]
        assert change(client, LOGGER, "0", ("root", SET, "ERROR")).error_code == 0
        assert values(client, LOGGER, "0", "ottla.configs") == {"ottla.configs": ("ERROR", 6)}
        assert change(client, LOGGER, "0", ("ottla.configs", SET, "TRACE")).error_code == 0
        assert (configs.isEnabledFor(5), ours.isEnabledFor(logging.WARNING)) == (True, False)
        assert change(client, LOGGER, "0", ("ottla.configs", DELETE, None)).error_code == 0
        assert not configs.isEnabledFor(logging.WARNING)
        assert change(client, LOGGER, "0", ("root", SET, "DEBUG"), ("nope", SET, "DEBUG")).error_code == CONFIG
        assert ours.level == logging.ERROR
        assert "root" in values(client, LOGGER, "0")
        assert all(name == "root" or name.startswith("ottla.") for name in values(client, LOGGER, "0"))
    assert (ours.level, configs.level) == before
