"""One of several data directories fails while the broker serves: its partitions go offline, everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from support.broker.admin import create, metadata, wanted
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient

PARTITIONS = range(6)


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("a", "b", "c")]


@pytest.fixture
def broker(dirs: list[str]) -> Iterator[ottla.Broker]:
    with ottla.Broker(overrides={"log.dirs": ",".join(dirs)}) as broker:
        yield broker


@pytest.fixture
def client(broker: ottla.Broker) -> Iterator[RawClient]:
    with RawClient(*address(broker)) as client:
        create_topic(client, "t", len(PARTITIONS))
        yield client


def home(broker: ottla.Broker) -> str:
    """The directory of the catalog."""
    return broker.inner.services.cluster.catalog.data_dir


def failed(broker: ottla.Broker, client: RawClient, directory: str) -> set[int]:
    """Fail a directory, and have it noticed; returns the partitions in it."""
    table = broker.inner.services.logs.logs
    there = {log.topic_partition.partition for log in table.values() if log.data_dir == directory}
    assert there
    broker.fault(disk="failed", data_dir=directory)
    for partition in there:
        assert produce(client, "t", ("k", "v"), partition=partition).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    return there


@pytest.mark.parametrize("which", [0, 1, 2])
def test_only_its_partitions_are_offline(broker: ottla.Broker, client: RawClient, dirs: list[str], which: int) -> None:
    there = failed(broker, client, dirs[which])
    for partition in PARTITIONS:
        code = produce(client, "t", ("k", "v"), partition=partition).error_code
        assert code == (ErrorCode.KAFKA_STORAGE_ERROR if partition in there else ErrorCode.NONE)
    (topic,) = metadata(client, "t").topics
    assert {row.partition_index for row in topic.partitions if row.offline_replicas} == there
    codes = {row.log_dir: row.error_code for row in client.ask(DescribeLogDirsRequest(topics=None)).results}
    assert codes == {each: 0 for each in dirs} | {dirs[which]: ErrorCode.KAFKA_STORAGE_ERROR}


def test_new_topics_go_to_the_others(broker: ottla.Broker, client: RawClient, dirs: list[str]) -> None:
    lost = next(each for each in dirs if each != home(broker))
    failed(broker, client, lost)
    create_topic(client, "u", 4)
    table = broker.inner.services.logs.logs
    assert lost not in {log.data_dir for log in table.values() if log.topic_partition.topic == "u"}
    assert produce(client, "u", ("k", "v")).error_code == ErrorCode.NONE


def test_without_the_catalog_nothing_is_made_and_the_rest_goes_on(
    broker: ottla.Broker, client: RawClient, dirs: list[str]
) -> None:
    there = failed(broker, client, home(broker))
    (row,) = create(client, wanted("u", 1, 1))
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    left = next(each for each in PARTITIONS if each not in there)
    assert produce(client, "t", ("k", "v"), partition=left).error_code == ErrorCode.NONE
    broker.restart()
    with RawClient(*address(broker)) as again:
        for partition in PARTITIONS:
            assert produce(again, "t", ("k", "v"), partition=partition).error_code == ErrorCode.NONE
        create_topic(again, "u")
