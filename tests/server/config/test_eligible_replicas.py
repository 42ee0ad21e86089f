"""`min.insync.replicas` with eligible leader replicas: a dynamic option of all nodes, with Apache Kafka 4.3.1's errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.config.broker_config import ConfigSource
from ottla.server.config.changes import ConfigOperation
from ottla.server.config.resources import ConfigResourceType
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient

NAME = "min.insync.replicas"
FEATURE = "eligible.leader.replicas.version"
OF_A_NODE = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
REMOVED = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
UPGRADE, SAFE = 1, 2


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        yield client


def shown(client: RawClient, kind: int, name: str) -> list[tuple[str, int]] | None:
    """Return the values of the option by their sources, the strongest first; None if the resource does not have it."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=(NAME,))
    (result,) = client.ask(DescribeConfigsRequest(resources=(resource,), include_synonyms=True)).results
    return [(each.value, each.source) for each in result.configs[0].synonyms] if result.configs else None


def change(client: RawClient, node: str, value: str | None, name: str = NAME, *, validate_only: bool = False) -> Any:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    configs = (AlterableConfig(name=name, value=value, config_operation=operation),)
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=node, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (answer,) = client.ask(request).responses
    return answer.error_code, answer.error_message


def replace(client: RawClient, node: str, **wanted: str) -> Any:
    configs = tuple(
        alter_configs.AlterableConfig(name=name.replace("_", "."), value=value) for name, value in wanted.items()
    )
    resource = alter_configs.AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name=node, configs=configs
    )
    (answer,) = client.ask(AlterConfigsRequest(resources=(resource,))).responses
    return answer.error_code, answer.error_message


def finalize(client: RawClient, level: int) -> None:
    kind = UPGRADE if level else SAFE
    update = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=kind)
    assert client.ask(UpdateFeaturesRequest(feature_updates=(update,))).error_code == ErrorCode.NONE


def test_it_is_a_dynamic_option_of_all_nodes_from_the_first_start_on(client: RawClient) -> None:
    create_topic(client, "t")
    everywhere = [("1", ConfigSource.DYNAMIC_DEFAULT_BROKER), ("1", ConfigSource.DEFAULT)]
    assert shown(client, ConfigResourceType.TOPIC, "t") == everywhere
    assert shown(client, ConfigResourceType.BROKER, "0") == everywhere
    assert shown(client, ConfigResourceType.BROKER, "") == everywhere[:1]


def test_it_can_be_changed_for_all_nodes_and_not_be_taken_away(client: RawClient) -> None:
    assert change(client, "", "2") == (ErrorCode.NONE, None)
    for validate_only in (True, False):
        assert change(client, "", None, validate_only=validate_only) == (ErrorCode.INVALID_CONFIG, REMOVED)
    assert replace(client, "", log_retention_ms="5") == (ErrorCode.INVALID_CONFIG, REMOVED)
    assert change(client, "", "0")[0] == ErrorCode.INVALID_REQUEST
    assert shown(client, ConfigResourceType.BROKER, "") == [("2", ConfigSource.DYNAMIC_DEFAULT_BROKER)]
    assert replace(client, "", log_retention_ms="5", min_insync_replicas="3") == (ErrorCode.NONE, None)
    assert shown(client, ConfigResourceType.BROKER, "") == [("3", ConfigSource.DYNAMIC_DEFAULT_BROKER)]


def test_no_node_has_a_value_of_its_own(client: RawClient) -> None:
    for value in ("2", None):
        assert change(client, "0", value) == (ErrorCode.INVALID_CONFIG, OF_A_NODE)
    assert replace(client, "0", min_insync_replicas="2") == (ErrorCode.INVALID_CONFIG, OF_A_NODE)
    assert change(client, "0", "0")[0] == ErrorCode.INVALID_REQUEST
    assert change(client, "0", "5", "log.retention.ms") == (ErrorCode.NONE, None)
    assert replace(client, "0") == (ErrorCode.NONE, None)


def test_without_the_feature_it_is_an_option_like_any_other(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), features={FEATURE: 0}) as broker, RawClient(*address(broker)) as client:
        assert shown(client, ConfigResourceType.BROKER, "") is None
        assert shown(client, ConfigResourceType.BROKER, "0") == [("1", ConfigSource.DEFAULT)]
        for node in ("0", ""):
            for value in ("2", None):
                assert change(client, node, value) == (ErrorCode.NONE, None)


def test_an_upgrade_takes_the_values_of_nodes_away_and_a_downgrade_leaves_the_one_of_all(tmp_path: Path) -> None:
    with (
        ottla.Broker(str(tmp_path), features={FEATURE: 0}, overrides={NAME: "2"}) as broker,
        RawClient(*address(broker)) as client,
    ):
        change(client, "0", "4")
        change(client, "0", "5000", "log.retention.ms")
        changes = broker.inner.services.cluster.changes
        finalize(client, 1)
        assert broker.inner.services.cluster.changes == changes + 1  # a disk that refuses it refuses all of it
        of_start = [("2", ConfigSource.DYNAMIC_DEFAULT_BROKER), ("2", ConfigSource.STATIC_BROKER)]
        assert (shown(client, ConfigResourceType.BROKER, "0") or [])[:2] == of_start
        assert broker.inner.config.node_config(0).log_defaults.retention_ms == 5000
        finalize(client, 0)
        assert (shown(client, ConfigResourceType.BROKER, "0") or [])[:2] == of_start
        assert change(client, "", None) == (ErrorCode.NONE, None)
        assert shown(client, ConfigResourceType.BROKER, "") is None


def test_a_start_takes_the_values_of_nodes_away_too_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        ottla.Broker(str(tmp_path), features={FEATURE: 0}) as broker,
        RawClient(*address(broker)) as client,
    ):
        create_topic(client, "t")
        change(client, "0", "4")
        change(client, "0", "5000", "log.retention.ms")
    caplog.clear()
    with ottla.Broker(str(tmp_path)) as broker:
        config = broker.inner.services.topics.partition("t", 0).log.config
        assert (config.min_insync_replicas, config.retention_ms) == (1, 5000)
    assert "stored min.insync.replicas=4 of node 0 was removed" in caplog.text
    assert "has no effect" not in caplog.text


def test_a_later_start_has_what_is_stored_and_says_that_its_own_value_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ottla.Broker(str(tmp_path), overrides={NAME: "2"}):
        pass
    assert NAME not in caplog.text
    with ottla.Broker(str(tmp_path), overrides={NAME: "3"}) as broker:
        assert broker.inner.config.current.min_insync_replicas == 2
    assert "min.insync.replicas=3 from startup has no effect" in caplog.text
    with ottla.Broker(str(tmp_path), overrides={NAME: "3"}, emulate="3.9") as broker:
        assert broker.inner.config.current.min_insync_replicas == 2
