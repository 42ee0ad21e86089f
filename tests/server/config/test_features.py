"""Finalized features: the source of their levels, and their values in ApiVersions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

import ottla
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.features import finalized
from ottla.server.config.properties import parse_server_properties
from ottla.server.config.static_config import static_config
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.topics.config import ConfigError
from support.broker.conversation import address
from support.broker.raw_client import RawClient

ACTING = {"eligible.leader.replicas.version": 1, "group.version": 1, "transaction.version": 2}
NEWEST = ACTING | {
    "kraft.version": 0,
    "metadata.version": 33,
    "share.version": 2,
    "streams.version": 1,
}

LEVELS: dict[str, tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]] = {
    "the newest": ({}, {}, NEWEST),
    "what was stored": ({}, {"transaction.version": 1}, NEWEST | {"transaction.version": 1}),
    "what the file says": ({"transaction.version": 0}, {"transaction.version": 1}, NEWEST | {"transaction.version": 0}),
    "no more than we know": ({}, {"group.version": 7, "metadata.version": 34, "share.version": 3}, NEWEST),
    "no less than we know": ({}, {"metadata.version": 1}, NEWEST | {"metadata.version": 7}),
}


@pytest.mark.parametrize(("given", "stored", "expected"), LEVELS.values(), ids=LEVELS)
def test_levels_follow_the_table(
    given: Mapping[str, int], stored: Mapping[str, int], expected: Mapping[str, int]
) -> None:
    assert {name: feature.level for name, feature in finalized(given, stored).items()} == expected


# (lines of the file, version) -> ranges and finalized levels, as recorded of Apache Kafka 4.4.0: a level of 0 is omitted, and
# before version 4 so is each range that begins with 0.
METADATA = {"metadata.version": (7, 33)}
RANGES = METADATA | {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
FINALIZED = {name: level for name, level in NEWEST.items() if level}
OTHERS = {name: level for name, level in FINALIZED.items() if name not in ACTING}
ANSWERS: dict[str, tuple[str, int, Mapping[str, tuple[int, int]], Mapping[str, int]]] = {
    "version 3": ("", 3, METADATA, FINALIZED),
    "version 4": ("", 4, RANGES, FINALIZED),
    "older transactions": ("# feature.transaction.version=1\n", 4, RANGES, FINALIZED | {"transaction.version": 1}),
    "nothing acting": ("".join(f"# feature.{name}=0\n" for name in ACTING), 4, RANGES, OTHERS),
    "older metadata": ("# feature.metadata.version=32\n", 4, RANGES, FINALIZED | {"metadata.version": 32}),
}


@pytest.mark.parametrize(("lines", "version", "ranges", "levels"), ANSWERS.values(), ids=ANSWERS)
async def test_clients_receive_supported_and_finalized_features(
    tmp_path: Path, lines: str, version: int, ranges: Mapping[str, tuple[int, int]], levels: Mapping[str, int]
) -> None:
    answer = await ask(tmp_path, lines, version)
    assert {row.name: (row.min_version, row.max_version) for row in answer.supported_features} == ranges
    assert {row.name: row.max_version_level for row in answer.finalized_features} == levels
    assert all(row.min_version_level == row.max_version_level for row in answer.finalized_features)


async def test_levels_of_a_later_start_have_a_higher_epoch(tmp_path: Path) -> None:
    before = await ask(tmp_path, "", 4)
    after = await ask(tmp_path, "# feature.transaction.version=1\n", 4, later_ms=1)
    assert before.finalized_features_epoch < after.finalized_features_epoch


async def ask(data_dir: Path, lines: str, version: int, later_ms: int = 0) -> Any:
    """Return ApiVersions of a broker whose file has these lines, started `later_ms` after a fixed moment."""
    clock = Clock(lambda: 1_000_000 + later_ms)
    static = static_config(
        file=parse_server_properties(lines),
        flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir)},
    )
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    async with run_supervisor(static, clock=clock, files=OsFiles()) as supervisor:
        broker = supervisor.broker
        for name in NEWEST:
            assert broker.services.config.feature_level(name) == broker.services.config.features[name].level
        with RawClient(*address(broker)) as client:
            return await trio.to_thread.run_sync(client.ask, request, version)


METADATA_VERSIONS = {
    "3.3-IV3": {name: 0 for name in NEWEST} | {"metadata.version": 7},
    "4.0-IV0": {name: 0 for name in NEWEST} | {"metadata.version": 22, "group.version": 1},
    "27": NEWEST | {"metadata.version": 27, "share.version": 0, "streams.version": 0},
    "4.2-IV0": NEWEST | {"metadata.version": 28, "share.version": 1, "streams.version": 0},
    "4.3-IV0": NEWEST | {"metadata.version": 30, "share.version": 1},
    "4.4-IV0": NEWEST | {"metadata.version": 31},
    "4.4-IV1": NEWEST | {"metadata.version": 32},
    "4.4-IV2": NEWEST,
    "4.5-IV0": NEWEST,
}
"""Metadata versions as `kafka-features version-mapping` of Apache Kafka 4.4.0 prints them."""


@pytest.mark.parametrize(("name", "levels"), METADATA_VERSIONS.items(), ids=METADATA_VERSIONS)
def test_levels_equal_those_of_a_new_cluster_of_the_metadata_version(name: str, levels: dict[str, int]) -> None:
    static = static_config(file=parse_server_properties(f"# metadata.version={name}\n"))
    assert {each: feature.level for each, feature in finalized(static.features, {}).items()} == levels
    assert not static.warnings


def test_one_feature_may_differ_from_its_metadata_version() -> None:
    static = static_config(file=parse_server_properties("# feature.group.version=1\n# metadata.version=3.9-IV0\n"))
    assert static.features["group.version"] == 1


def test_an_unknown_metadata_version_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value 2.8 for comment line # metadata.version: must be one of 3.3-IV3"
    ):
        static_config(file=parse_server_properties("# metadata.version=2.8\n"))


def test_the_unstable_metadata_version_is_available_only_if_enabled() -> None:
    given = {"metadata.version": 34}
    assert finalized(given, {})["metadata.version"] == (7, 33, 33)
    assert finalized(given, {}, unstable=True)["metadata.version"] == (7, 34, 34)


def test_an_embedded_broker_accepts_feature_levels(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), features={"transaction.version": 1}) as broker:
        assert broker.inner.services.config.feature_level("transaction.version") == 1
        assert broker.inner.services.config.feature_level("group.version") == 1
