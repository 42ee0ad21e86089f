"""UpdateFeatures: Apache Kafka 4.4.0's answers, recorded from a new cluster of it, and the resulting levels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from support.broker.conversation import address
from support.broker.raw_client import RawClient

FAILED = "The update failed for all features since the following feature had an error: "
UNSET = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
UPGRADE, SAFE, UNSAFE = 1, 2, 3

# (feature, level, kind of update) -> Apache Kafka's answer; None if it agrees.
ANSWERS = {
    ("metadata.version", 33, UPGRADE): None,
    ("metadata.version", 34, UPGRADE): (
        "Invalid update version 34 for feature metadata.version. Local controller 0 only supports versions 7-33"
    ),
    ("metadata.version", 6, UNSAFE): (
        "Invalid update version 6 for feature metadata.version. Local controller 0 only supports versions 7-33"
    ),
    ("metadata.version", 32, UPGRADE): f"Invalid update version 32 for feature metadata.version. {UNSET}",
    ("metadata.version", 32, SAFE): (
        "Unsupported metadata.version downgrade from 33 to 32. Refusing to perform the requested downgrade because it"
        " might delete metadata information."
    ),
    ("metadata.version", 14, UNSAFE): (
        "Unsupported metadata.version downgrade from 33 to 14. Unsafe metadata downgrade is not supported in this"
        " version."
    ),
    ("group.version", 0, UPGRADE): f"Invalid update version 0 for feature group.version. {UNSET}",
    ("group.version", 0, SAFE): None,
    ("group.version", 0, UNSAFE): None,
    ("group.version", 1, SAFE): None,
    ("group.version", 2, UPGRADE): (
        "Invalid update version 2 for feature group.version. Local controller 0 only supports versions 0-1"
    ),
    ("group.version", -1, UNSAFE): (
        "Invalid update version -1 for feature group.version. A feature version cannot be less than 0."
    ),
    ("group.version", 1, 0): (
        "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type."
    ),
    ("group.version", 1, 9): (
        "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type."
    ),
    ("transaction.version", 1, SAFE): None,
    ("transaction.version", 3, UPGRADE): (
        "Invalid update version 3 for feature transaction.version. Local controller 0 only supports versions 0-2"
    ),
    ("eligible.leader.replicas.version", 0, SAFE): None,
    ("share.version", 0, SAFE): None,
    ("share.version", 1, SAFE): None,
    ("share.version", 3, UPGRADE): (
        "Invalid update version 3 for feature share.version. Local controller 0 only supports versions 0-2"
    ),
    ("streams.version", 0, SAFE): None,
    ("kraft.version", 0, UPGRADE): None,
    ("kraft.version", 2, UPGRADE): (
        "Invalid update version 2 for feature kraft.version. Local controller 0 only supports versions 0-1"
    ),
    ("foo", 1, UPGRADE): "Invalid update version 1 for feature foo. Local controller 0 does not support this feature.",
    ("foo", 0, UNSAFE): "Invalid update version 0 for feature foo. Feature foo not found.",
}


def begin(client: RawClient, transactional_id: str) -> None:
    assert client.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 3).error_code == 0
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000)
    assert client.ask(request).error_code == 0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    with (
        ottla.Broker(str(tmp_path_factory.mktemp("features"))) as broker,
        RawClient(*address(broker)) as client,
    ):
        yield client


def update(client: RawClient, *wished: tuple[str, int, int], validate_only: bool = False, version: int = 2) -> Any:
    updates = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in wished
    )
    return client.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), version)


def levels(client: RawClient) -> dict[str, int]:
    return {row.name: row.max_version_level for row in hello(client).finalized_features}


def hello(client: RawClient) -> Any:
    return client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)


@pytest.mark.parametrize("wished", ANSWERS, ids=str)
def test_validate_only_is_answered_as_by_kafka_and_changes_nothing(
    client: RawClient, wished: tuple[str, int, int]
) -> None:
    before, reason = hello(client), ANSWERS[wished]
    answer = update(client, wished, validate_only=True)
    expected = (0, None) if reason is None else (ErrorCode.INVALID_UPDATE_VERSION, FAILED + reason)
    assert (answer.error_code, answer.error_message) == expected
    assert hello(client) == before


def test_kraft_version_never_decreases(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert update(client, ("kraft.version", 1, UPGRADE)).error_code == 0
        for kind in (SAFE, UNSAFE):
            assert update(client, ("kraft.version", 0, kind)).error_message == (
                f"{FAILED}Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature."
            )


def test_one_refused_update_refuses_all(client: RawClient) -> None:
    before = hello(client)
    assert (
        update(client, ("group.version", 0, SAFE), ("foo", 1, UPGRADE)).error_code == ErrorCode.INVALID_UPDATE_VERSION
    )
    assert hello(client) == before


def test_older_versions_have_a_row_for_each_feature(client: RawClient) -> None:
    answer = update(client, ("group.version", 1, UPGRADE), version=1)
    assert [(row.feature, row.error_code, row.error_message) for row in answer.results] == [
        ("group.version", 0, "NONE")
    ]
    allowed = FeatureUpdateKey(feature="group.version", max_version_level=1, allow_downgrade=True)
    assert client.ask(UpdateFeaturesRequest(feature_updates=(allowed,)), 0).error_code == 0


def test_a_level_applies_at_once_with_a_higher_epoch_and_survives(tmp_path: Path) -> None:
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        before = hello(client).finalized_features_epoch
        assert update(client, ("group.version", 0, SAFE), ("transaction.version", 1, SAFE)).error_code == 0
        assert hello(client).finalized_features_epoch > before
        refused = client.ask(beat)
        assert (refused.error_code, refused.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
        told = levels(client)
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert levels(client) == told
        assert ("group.version" in told, told["transaction.version"]) == (False, 1)
        assert update(client, ("group.version", 1, UPGRADE)).error_code == 0
        assert client.ask(beat).error_code == 0


def test_transactions_follow_the_current_level(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        written = []
        for level, kind in ((0, SAFE), (2, UPGRADE)):
            begin(client, f"before {level}")
            assert update(client, ("transaction.version", level, kind)).error_code == 0
            begin(client, f"after {level}")
            values = [record.value for record in broker.records("__transaction_state")]
            written.append({int.from_bytes(value[:2]) for value in values if value is not None})
            assert client.ask(DeleteTopicsRequest(topic_names=("__transaction_state",)), 5).responses[0].error_code == 0
        assert written == [{0, 1}, {0, 1}]


def test_the_message_about_a_long_feature_name_is_truncated(client: RawClient) -> None:
    answer = update(client, ("f" * 32_000, 1, UPGRADE))
    assert len(answer.error_message) <= 8191


def test_the_epoch_increases_in_the_next_run_at_any_clock(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker:
        broker.clock.freeze()
        epochs = []
        for level in (1, 2):
            with RawClient(*address(broker)) as client:
                kind = SAFE if level == 1 else UPGRADE
                assert update(client, ("transaction.version", level, kind)).error_code == 0
                epochs.append(hello(client).finalized_features_epoch)
            broker.restart()
            with RawClient(*address(broker)) as client:
                epochs.append(hello(client).finalized_features_epoch)
        assert epochs == sorted(set(epochs))
