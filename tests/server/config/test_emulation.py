"""Emulation of older brokers: the APIs of each release, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.records import batches
from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.emulation import RELEASES, release_of
from ottla.server.config.features import finalized
from ottla.server.config.properties import parse_server_properties
from ottla.server.config.static_config import static_config
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.topics.config import ConfigError
from support.broker.compacting import QUICK, VALUE, alter, create_compacted, let_clean
from support.broker.conversation import address, fetch, produce
from support.broker.raw_client import RawClient
from support.noted import each_case

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")

# release -> what its ApiVersions says of some APIs, as its message definitions have it; None: it has does not have API
OF_KAFKA: dict[str, dict[str, tuple[int, int] | None]] = {
    "2.8": {"Produce": (0, 9), "Fetch": (0, 12), "FindCoordinator": (0, 3), "ListTransactions": None},
    "3.0": {"Fetch": (0, 12), "ListOffsets": (0, 7), "OffsetFetch": (0, 8), "ListTransactions": (0, 0)},
    "3.1": {"Fetch": (0, 13), "Metadata": (0, 12)},
    "3.2": {"JoinGroup": (0, 9), "DescribeLogDirs": (0, 3)},
    "3.3": {"DescribeLogDirs": (0, 4)},
    "3.4": {"Fetch": (0, 13)},
    "3.5": {"Fetch": (0, 15), "AddPartitionsToTxn": (0, 3), "ConsumerGroupHeartbeat": None},
    "3.6": {"OffsetCommit": (0, 8), "AddPartitionsToTxn": (0, 4)},
    "3.7": {"Produce": (0, 10), "ConsumerGroupHeartbeat": (0, 0), "ConsumerGroupDescribe": None},
    "3.8": {"Produce": (0, 11), "ConsumerGroupDescribe": (0, 0), "DescribeTopicPartitions": (0, 0)},
    "3.9": {"Fetch": (0, 17), "ApiVersions": (0, 4)},
    "4.0": {"Produce": (0, 12), "Fetch": (4, 17), "JoinGroup": (2, 9), "EndTxn": (0, 5), "ShareFetch": None},
    "4.1": {
        "Produce": (0, 13),
        "Fetch": (4, 18),
        "JoinGroup": (0, 9),
        "OffsetCommit": (2, 9),
        "ShareFetch": (1, 1),
        "WriteShareGroupState": (0, 0),
    },
    "4.2": {
        "OffsetCommit": (2, 10),
        "DescribeLogDirs": (1, 4),
        "ShareFetch": (1, 2),
        "ShareGroupHeartbeat": (1, 1),
        "WriteShareGroupState": (0, 1),
        "DescribeShareGroupOffsets": (0, 1),
    },
    "4.3": {
        "DescribeLogDirs": (1, 5),
        "ApiVersions": (0, 4),
        "TxnOffsetCommit": (0, 5),
        "StreamsGroupHeartbeat": (0, 0),
    },
    "4.4": {},
}


@each_case("name", RELEASES)
def test_each_release_has_the_versions_of_its_definitions(name: str) -> None:
    release = release_of(name)
    for api in APIS.values():
        if api.name in OF_KAFKA[name]:
            assert release.of_kafka.get(api.key) == OF_KAFKA[name][api.name], api.name


@each_case("older, newer", list(pairwise(RELEASES)))
def test_no_release_removes_abilities_of_an_earlier_one(older: str, newer: str) -> None:
    before, after = release_of(older).of_kafka, release_of(newer).of_kafka
    assert before.keys() <= after.keys()
    assert all(after[key][1] >= versions[1] for key, versions in before.items())


def test_the_newest_release_equals_the_default() -> None:
    assert release_of(RELEASES[-1]).of_kafka == {api.key: api.advertised for api in APIS.values()}


@each_case("name", RELEASES)
def test_exactly_the_advertised_versions_are_answered(name: str) -> None:
    release = release_of(name)
    for api in APIS.values():
        advertised = release.advertised(api.key)
        spoken = [version for version in range(32) if release.speaks(api.key, version)]
        if advertised is None:
            assert spoken == []
        else:
            low, high = advertised
            assert spoken == list(range(max(low, api.versions[0]), high + 1))
            assert (api.name == "Produce") == (low < api.versions[0]), (
                "only Produce is named from versions on that are gone"
            )


@pytest.mark.parametrize("text", ["2.8", "v2.8", "2.8.1"])
def test_a_patch_version_belongs_to_its_release(text: str) -> None:
    assert release_of(text).name == "2.8"


@pytest.mark.parametrize("text", ["2.7", "0.11", "5.0", "", "four", "2", "28"])
def test_any_other_release_is_refused_with_the_list(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"Invalid value {text} for emulate: must be one of: 2\.8, 3\.0, .*, 4\.4"):
        release_of(text)


def test_a_feature_that_the_release_lacks_is_refused() -> None:
    file = parse_server_properties("# feature.transaction.version=2\n")
    with pytest.raises(
        ConfigError, match=r"Invalid value 2 for feature transaction\.version: .* 3\.9, .* does not have"
    ):
        static_config(file=file, emulate="3.9")
    assert static_config(file=file, emulate="4.0").emulate == "4.0"


# Release -> the feature levels in the answer to a client of it, and those of a new cluster; 0 is none.
FEATURES: dict[str, dict[str, tuple[int, int, int]]] = {
    "3.2": {},
    "3.3": {"metadata.version": (1, 7, 7)},
    "3.9": {"kraft.version": (0, 1, 0), "metadata.version": (1, 21, 21)},
    "4.0": {
        "eligible.leader.replicas.version": (0, 1, 0),
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 25, 25),
        "transaction.version": (0, 2, 2),
    },
    "4.1": {
        "eligible.leader.replicas.version": (0, 1, 1),
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 27, 27),
        "share.version": (0, 1, 0),
        "transaction.version": (0, 2, 2),
    },
    "4.3": {
        "eligible.leader.replicas.version": (0, 1, 1),
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 30, 30),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
    },
}


@pytest.mark.parametrize("name", FEATURES)
async def test_clients_receive_the_features_of_the_release(tmp_path: Path, name: str) -> None:
    features = FEATURES[name]
    async with run_supervisor(static(tmp_path, name), files=OsFiles()) as supervisor:
        broker = supervisor.broker
        version = release_of(name).of_kafka[18][1]
        answer = await in_thread(broker, partial(RawClient.ask, message=HELLO, version=version))
        assert {row.name: row.max_version_level for row in answer.finalized_features} == {
            feature: level for feature, (_, _, level) in features.items() if level
        }
        assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == {
            feature: (least, most) for feature, (least, most, _) in features.items() if version >= 4 or least
        }


def test_the_newest_release_has_the_default_features() -> None:
    assert finalized({}, {}, release_of(RELEASES[-1])) == finalized({}, {})


async def test_an_old_broker_does_not_know_new_apis(tmp_path: Path) -> None:
    async with run_supervisor(static(tmp_path, "2.8"), files=OsFiles()) as supervisor:
        broker = supervisor.broker
        rows = (await in_thread(broker, lambda client: client.ask(HELLO, 3))).api_keys
        assert {row.api_key: (row.min_version, row.max_version) for row in rows} == {
            key: versions for key in APIS if (versions := release_of("2.8").advertised(key)) is not None
        }
        answer = await in_thread(broker, newer_hello)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(row.api_key, row.max_version) for row in answer.api_keys] == [(18, 3)]
        for request, version in (
            (FetchRequest(max_wait_ms=0, min_bytes=0, topics=(), forgotten_topics_data=()), 13),
            (MetadataRequest(topics=()), 12),
            (ConsumerGroupHeartbeatRequest(group_id="g"), 0),
        ):
            with pytest.raises(ConnectionError):
                await in_thread(broker, partial(RawClient.ask, message=request, version=version))
        assert await in_thread(broker, lambda client: client.ask(MetadataRequest(topics=()), 11))


def newer_hello(client: RawClient) -> Any:
    """Send ApiVersions in version 4, whose answer comes in version 0."""
    api = APIS[18]
    client.send_bytes(encode_request(api, 4, 7, "test", HELLO))
    return parse_response(api, 0, client.receive_frame())[1]


def static(data_dir: Path, emulate: str) -> Any:
    return static_config(flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir)}, emulate=emulate)


async def in_thread(broker: Broker, what: Callable[[RawClient], Any]) -> Any:
    """Return the answer to a client that waits in a thread."""

    def ask() -> Any:
        with RawClient(*address(broker)) as client:
            return what(client)

    return await trio.to_thread.run_sync(ask)


@pytest.mark.parametrize(("emulate", "ends"), [(None, {0, 2}), ("4.3", {0, 1, 2}), ("4.0", {0, 1, 2})])
def test_kafka_20452_the_cleaner_of_an_old_broker_keeps_the_last_batch_of_what_it_cleaned(
    emulate: str | None, ends: set[int], tmp_path: Path
) -> None:
    with ottla.Broker(tmp_path, overrides=QUICK, emulate=emulate) as broker, RawClient(*address(broker)) as client:
        create_compacted(client, "t", cleanup_policy="delete")
        for key in ("a", None, "b"):  # each in a segment of its own
            assert produce(client, "t", (key, VALUE)).error_code == ErrorCode.NONE
        alter(client, "t", cleanup_policy="compact")
        let_clean(broker)
        found = set()
        for offset in range(3):
            records = fetch(client, "t", offset).records
            assert isinstance(records, bytes | memoryview)
            found |= {batch.last_offset for batch in batches(records)}
        assert found == ends


def test_an_embedded_broker_can_emulate_an_old_one(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, emulate="3.1") as broker, RawClient(*address(broker)) as client:
        rows = {row.api_key: row.max_version for row in client.ask(HELLO, 3).api_keys}
        assert (rows[1], rows[2]) == (13, 7)
        broker.restart()
        assert broker.inner.config.release is release_of("3.1")
    with pytest.raises(ConfigError, match=r"Invalid value 2\.7 for emulate"):
        ottla.Broker(emulate="2.7")
    with pytest.raises(TypeError, match=r"emulate: expected str or None, found 2\.8"):
        ottla.Broker(emulate=2.8)  # type: ignore[arg-type]
