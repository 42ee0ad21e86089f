"""The config APIs over the wire: a change takes effect at once, survives a restart, and is shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.server.config.changes import ConfigOperation
from ottla.server.config.options.known_options import reason_of
from ottla.server.config.resources import ConfigResourceType
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER


def describe(
    client: RawClient, kind: int, name: str, *keys: str, version: int | None = None, **fields: Any
) -> dict[str, Any]:
    """Return the configs of one resource by name; the result itself under the empty name."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    (result,) = client.ask(DescribeConfigsRequest(resources=(resource,), **fields), version).results
    return {"": result} | {config.name: config for config in result.configs}


def set_configs(client: RawClient, kind: int, name: str, *, validate_only: bool = False, **configs: str | None) -> Any:
    """Send IncrementalAlterConfigs for one resource; None deletes. `_` in names stands for the point."""
    changes = tuple(
        incremental_alter_configs.AlterableConfig(
            name=key.replace("_", "."),
            value=value,
            config_operation=ConfigOperation.DELETE if value is None else ConfigOperation.SET,
        )
        for key, value in configs.items()
    )
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (response,) = client.ask(request).responses
    return response


def replace_configs(client: RawClient, kind: int, name: str, **configs: str) -> Any:
    """Send AlterConfigs for one resource."""
    wanted = tuple(
        alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
    )
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=wanted)
    (response,) = client.ask(AlterConfigsRequest(resources=(resource,))).responses
    return response


def test_a_topic_config_applies_to_the_next_produce(client: RawClient) -> None:
    create_topic(client, "t")
    assert produce(client, "t", ("k", "v" * 100)).error_code == ErrorCode.NONE
    assert set_configs(client, TOPIC, "t", max_message_bytes="100").error_code == ErrorCode.NONE
    assert produce(client, "t", ("k", "v" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert set_configs(client, TOPIC, "t", max_message_bytes=None).error_code == ErrorCode.NONE
    assert produce(client, "t", ("k", "v" * 100)).error_code == ErrorCode.NONE


@pytest.mark.scenario(176)
def test_a_broker_config_applies_at_once_to_topics_without_an_override(client: RawClient) -> None:
    create_topic(client, "plain")
    create_topic(client, "own", max_message_bytes="1000000")
    assert set_configs(client, BROKER, "", message_max_bytes="100").error_code == ErrorCode.NONE
    assert produce(client, "plain", ("k", "v" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(client, "own", ("k", "v" * 100)).error_code == ErrorCode.NONE
    assert describe(client, TOPIC, "plain", "max.message.bytes")["max.message.bytes"].config_source == 3


def test_refused_changes_have_no_effect(client: RawClient) -> None:
    create_topic(client, "t", retention_ms="5000")
    refused = set_configs(client, TOPIC, "t", retention_ms="6000", segment_bytes="5")
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "segment.bytes" in refused.error_message
    assert describe(client, TOPIC, "t")["retention.ms"].value == "5000"
    refused = set_configs(client, BROKER, "", log_retention_ms="6000", log_segment_bytes="5")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "log.retention.ms" not in describe(client, BROKER, "")


def test_validate_only_checks_and_changes_nothing(client: RawClient) -> None:
    create_topic(client, "t")
    assert set_configs(client, TOPIC, "t", validate_only=True, retention_ms="5").error_code == ErrorCode.NONE
    assert describe(client, TOPIC, "t")["retention.ms"].value == "604800000"
    refused = set_configs(client, TOPIC, "t", validate_only=True, retention_ms="-5")
    assert refused.error_code == ErrorCode.INVALID_CONFIG


def test_alter_configs_unsets_unnamed_options(client: RawClient) -> None:
    create_topic(client, "t", retention_ms="5000", flush_ms="7")
    assert replace_configs(client, TOPIC, "t", retention_ms="6000").error_code == ErrorCode.NONE
    shown = describe(client, TOPIC, "t")
    assert (shown["retention.ms"].value, shown["flush.ms"].config_source) == ("6000", 5)
    set_configs(client, BROKER, "0", max_connections="99", log_retention_ms="9")
    assert replace_configs(client, BROKER, "0", max_connections="98").error_code == ErrorCode.NONE
    shown = describe(client, BROKER, "0")
    assert (shown["max.connections"].value, shown["log.retention.ms"].value) == ("98", None)


def test_each_topic_of_a_request_gets_its_own_result(client: RawClient) -> None:
    names = [f"t{number}" for number in range(3)]
    for name in names:
        create_topic(client, name)
    wishes = {"t0": "5", "missing": "6", "t1": "-7", "t2": "8", "": "9"}
    response = client.ask(
        IncrementalAlterConfigsRequest(
            resources=tuple(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name=name,
                    configs=(incremental_alter_configs.AlterableConfig(name="retention.ms", value=value),),
                )
                for name, value in wishes.items()
            )
        )
    )
    assert [(each.resource_name, each.error_code) for each in response.responses] == [
        ("t0", ErrorCode.NONE),
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t1", ErrorCode.INVALID_CONFIG),
        ("t2", ErrorCode.NONE),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    assert [describe(client, TOPIC, name)["retention.ms"].value for name in names] == ["5", "604800000", "8"]


def test_configs_survive_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        set_configs(client, TOPIC, "t", cleanup_policy="compact")
        set_configs(client, BROKER, "", log_retention_ms="123456", message_max_bytes="100")
        set_configs(client, BROKER, "0", max_connections="99")
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        topic, node = describe(client, TOPIC, "t"), describe(client, BROKER, "0")
        assert produce(client, "t", ("k", "v" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert (topic["cleanup.policy"].value, topic["cleanup.policy"].config_source) == ("compact", 1)
    assert (topic["retention.ms"].value, topic["retention.ms"].config_source) == ("123456", 3)
    assert (node["max.connections"].value, node["max.connections"].config_source) == ("99", 2)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER_LOGGER, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unchangeable_resources_are_refused_with_the_reason(
    client: RawClient, kind: int, name: str, code: ErrorCode
) -> None:
    for response in (
        set_configs(client, kind, name, retention_ms="5"),
        replace_configs(client, kind, name, retention_ms="5"),
    ):
        assert response.error_code == code
        assert response.error_message
        assert (response.resource_type, response.resource_name) == (kind, name)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.BROKER_LOGGER, "x", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (ConfigResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_missing_resources_are_reported(client: RawClient, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(client, kind, name)[""]
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert result.configs == ()


@pytest.mark.parametrize(
    ("kind", "name", "config", "value"),
    [
        (ConfigResourceType.CLIENT_METRICS, "s", "interval.ms", "300000"),
        (ConfigResourceType.GROUP, "g", "consumer.session.timeout.ms", "45000"),
    ],
)
def test_resources_of_other_types_show_defaults(
    client: RawClient, kind: int, name: str, config: str, value: str
) -> None:
    assert describe(client, kind, name)[config].value == value
    assert list(describe(client, kind, name, config)) == ["", config]


def test_a_resource_named_twice_is_refused_both_times_and_described_once(client: RawClient) -> None:
    create_topic(client, "t")
    change = incremental_alter_configs.AlterableConfig(name="flush.ms", value="5")
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=(change,))
    responses = client.ask(IncrementalAlterConfigsRequest(resources=(resource, resource))).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2
    asked = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)
    assert len(client.ask(DescribeConfigsRequest(resources=(asked, asked))).results) == 1


def test_resources_of_one_request_are_independent(client: RawClient) -> None:
    create_topic(client, "t")
    good, bad = (
        incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=(incremental_alter_configs.AlterableConfig(name="flush.ms", value="5"),),
        )
        for name in ("t", "missing")
    )
    responses = client.ask(IncrementalAlterConfigsRequest(resources=(bad, good))).responses
    assert [response.error_code for response in responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert describe(client, TOPIC, "t")["flush.ms"].value == "5"


def test_synonyms_and_documentation_come_on_request(client: RawClient) -> None:
    create_topic(client, "t")
    plain = describe(client, TOPIC, "t", "flush.messages")["flush.messages"]
    assert (plain.synonyms, plain.documentation) == ((), None)
    full = describe(client, TOPIC, "t", "flush.messages", include_synonyms=True, include_documentation=True)
    assert [synonym.name for synonym in full["flush.messages"].synonyms] == ["log.flush.interval.messages"]
    assert "synced" in full["flush.messages"].documentation


@pytest.mark.parametrize("version", range(APIS[32].versions[0], APIS[32].versions[1] + 1))
def test_every_version_describes(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    assert describe(client, TOPIC, "t", version=version)["cleanup.policy"].value == "delete"


def test_setting_an_option_without_effect_logs_a_warning(client: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert set_configs(client, BROKER, "", num_io_threads="9", zork="1").error_code == ErrorCode.NONE
    assert set_configs(client, BROKER, "", max_connections="9999").error_code == ErrorCode.NONE
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"num.io.threads: known to Kafka, but has no effect in Ottla: {reason_of('num.io.threads')}",
        "zork: unknown option, ignored",
    ]


def test_topics_and_nodes_are_listed(client: RawClient) -> None:
    create_topic(client, "t")

    def listed(version: int, *kinds: int) -> Any:
        return client.ask(ListConfigResourcesRequest(resource_types=kinds), version)

    found = {(row.resource_type, row.resource_name) for row in listed(1).config_resources}
    assert found == {(TOPIC, "t"), (BROKER, "0"), (ConfigResourceType.BROKER_LOGGER, "0")}
    assert [row.resource_name for row in listed(1, TOPIC).config_resources] == ["t"]
    assert listed(1, ConfigResourceType.GROUP).config_resources == ()
    assert listed(0).config_resources == ()
    assert listed(1, 77).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.fixture
def three_nodes(tmp_path: Path) -> Iterator[list[RawClient]]:
    """Yield a client of each of three nodes."""
    with ottla.Broker(str(tmp_path), nodes=3) as broker:
        clients = [RawClient(*address(broker, number)) for number in range(3)]
        yield clients
        for client in clients:
            client.close()


def test_each_node_answers_for_itself(three_nodes: list[RawClient]) -> None:
    for node_id, client in enumerate(three_nodes):
        assert describe(client, BROKER, str(node_id))["node.id"].value == str(node_id)
        assert describe(client, BROKER, str((node_id + 1) % 3))[""].error_code == ErrorCode.INVALID_REQUEST
    assert set_configs(three_nodes[1], BROKER, "1", max_connections="55").error_code == ErrorCode.NONE
    shown = [describe(client, BROKER, str(node_id)) for node_id, client in enumerate(three_nodes)]
    assert [configs["max.connections"].config_source for configs in shown] == [5, 2, 5]


def test_a_change_for_all_nodes_must_be_valid_for_each(three_nodes: list[RawClient]) -> None:
    assert set_configs(three_nodes[2], BROKER, "2", log_cleaner_min_compaction_lag_ms="9").error_code == ErrorCode.NONE
    refused = set_configs(three_nodes[0], BROKER, "", log_cleaner_max_compaction_lag_ms="8")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert "log.cleaner.max.compaction.lag.ms" not in describe(three_nodes[0], BROKER, "")


def test_setting_a_shared_option_on_a_later_node_logs_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared: dict[str, Any] = {"message_max_bytes": "100", "log_cleaner_threads": "2"}
    of_each: dict[str, Any] = {
        "max_connections": "50",
        "max_connections_per_ip": "40",
        "leader_replication_throttled_rate": "5",
    }
    with ottla.Broker(str(tmp_path), nodes=2) as broker:
        caplog.clear()
        for number in range(2):
            with RawClient(*address(broker, number)) as client:
                assert not set_configs(client, BROKER, str(number), **shared, **of_each).error_code
                assert not set_configs(client, BROKER, "", message_max_bytes="200").error_code
        told = [record.message for record in caplog.records if record.name == "ottla.configs"]
        assert told == [
            "node.1.message.max.bytes: stored and shown, but all nodes share the value of node 0",
            "node.1.log.cleaner.threads: stored and shown, but all nodes share the value of node 0",
        ]
        assert broker.inner.config.current.message_max_bytes == 100
