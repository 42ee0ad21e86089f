"""Failure of one of several data directories while the broker serves: its partitions go offline, everything else continues."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.os_files import OsFiles
from support.broker.admin import create, delete, metadata, wanted
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.disk.troubled_files import Trouble, TroubledFiles, trouble

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
    """Return the directory of the catalog."""
    return broker.inner.services.cluster.catalog.data_dir


def failed(broker: ottla.Broker, client: RawClient, directory: str) -> set[int]:
    """Fail a directory, and let the broker notice it; return the partitions in it."""
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
    assert {row.partition_index: (row.error_code, row.leader_id) for row in topic.partitions} == {
        each: (ErrorCode.LEADER_NOT_AVAILABLE, -1) if each in there else (0, 0) for each in PARTITIONS
    }
    codes = {row.log_dir: row.error_code for row in client.ask(DescribeLogDirsRequest(topics=None)).results}
    assert codes == {each: 0 for each in dirs} | {dirs[which]: ErrorCode.KAFKA_STORAGE_ERROR}


def test_new_topics_use_the_remaining_directories(broker: ottla.Broker, client: RawClient, dirs: list[str]) -> None:
    lost = next(each for each in dirs if each != home(broker))
    failed(broker, client, lost)
    create_topic(client, "u", 4)
    table = broker.inner.services.logs.logs
    assert lost not in {log.data_dir for log in table.values() if log.topic_partition.topic == "u"}
    assert produce(client, "u", ("k", "v")).error_code == ErrorCode.NONE


def test_without_the_catalog_creation_is_refused_and_other_requests_continue(
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


# At a start


def codes_of(client: RawClient, name: str = "t") -> dict[int, int]:
    return {each: produce(client, name, ("k", "v"), partition=each).error_code for each in PARTITIONS}


def unreadable(directory: str) -> Trouble:
    return trouble(OSError(errno.EIO, "Input/output error"), "open", "list", "sync", "append", "create", at=directory)


async def test_an_unreadable_directory_at_a_start_is_offline(tmp_path: Path, dirs: list[str]) -> None:
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        await served.ask(create_topic, "t", len(PARTITIONS))
        assert set((await served.ask(codes_of)).values()) == {0}
        await served.broker.services.topic_admin.ensure_internal("__consumer_offsets")
        table = served.broker.services.logs.logs
        lost = next(each for each in dirs if each != served.broker.services.cluster.catalog.data_dir)
        there = {
            log.topic_partition.partition
            for log in table.values()
            if log.data_dir == lost and log.topic_partition.topic == "t"
        }
        before = Path(served.broker.services.cluster.catalog.data_dir, "ottla.json").read_text()
    files = TroubledFiles()
    files.trouble = unreadable(lost)
    async with serving(tmp_path, files, None, log_dirs=",".join(dirs)) as served:
        found = await served.ask(codes_of)
        assert found == {each: int(each in there) * ErrorCode.KAFKA_STORAGE_ERROR for each in PARTITIONS}
        described = (await served.ask(RawClient.ask, DescribeLogDirsRequest(topics=None))).results
        assert {row.log_dir for row in described if row.error_code == ErrorCode.KAFKA_STORAGE_ERROR} == {lost}
        (topic,) = (await served.ask(metadata, "t")).topics
        assert {row.partition_index for row in topic.partitions if row.offline_replicas} == there
        await served.ask(create_topic, "u", 4)
        await served.ask(delete, "u")
        assert Path(served.broker.services.cluster.catalog.data_dir, "ottla.json").read_text() == before
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        assert set((await served.ask(codes_of)).values()) == {0}
        ends = {
            log.topic_partition.partition: log.log_end_offset
            for log in served.broker.services.logs.logs.values()
            if log.topic_partition.topic == "t"
        }
        assert ends == {each: 2 if each in there else 3 for each in PARTITIONS}


async def test_a_topic_deleted_while_its_directory_failed_does_not_return(tmp_path: Path, dirs: list[str]) -> None:
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        await served.ask(create_topic, "t", len(PARTITIONS))
        lost = next(each for each in dirs if each != served.broker.services.cluster.catalog.data_dir)
    files = TroubledFiles()
    files.trouble = unreadable(lost)
    async with serving(tmp_path, files, None, log_dirs=",".join(dirs)) as served:
        await served.ask(delete, "t")
        await served.ask(create_topic, "t", len(PARTITIONS))
        assert set((await served.ask(codes_of)).values()) == {0}
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        assert set((await served.ask(codes_of)).values()) == {0}
        assert {log.log_end_offset for log in served.broker.services.logs.logs.values()} == {2}


async def test_a_start_without_the_catalogs_directory_is_refused(tmp_path: Path, dirs: list[str]) -> None:
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        home = served.broker.services.cluster.catalog.data_dir
        await served.ask(create_topic, "t", len(PARTITIONS))
    files = TroubledFiles()
    files.trouble = unreadable(home)
    with pytest.raises(DataDirectoryError, match="Input/output error"):
        async with serving(tmp_path, files, None, log_dirs=",".join(dirs)):
            pass


def test_an_election_for_an_offline_partition_is_refused(
    broker: ottla.Broker, client: RawClient, dirs: list[str]
) -> None:
    (lost, *_) = sorted(failed(broker, client, dirs[0]))
    for election_type, code in (
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ):
        wanted = (TopicPartitions(topic="t", partitions=(lost,)),)
        asked = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted, timeout_ms=1_000)
        ((row,),) = (each.partition_result for each in client.ask(asked).replica_election_results)
        assert row.error_code == code
        assert str(row.error_message).startswith(f"the log of t-{lost}, shared by all replicas, is offline: ")


def test_a_group_in_a_failed_directory_has_no_coordinator(
    broker: ottla.Broker, client: RawClient, dirs: list[str]
) -> None:
    groups = [f"g{number}" for number in range(20)]

    def coordinators() -> dict[str, int]:
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(groups))
        return {row.key: row.error_code for row in client.ask(asked).coordinators}

    while set(coordinators().values()) != {0}:
        pass
    lost = next(each for each in dirs if each != home(broker))
    failed(broker, client, lost)
    assert set(coordinators().values()) == {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}


async def test_an_unreadable_topic_id_at_a_start_takes_its_directory_offline(tmp_path: Path, dirs: list[str]) -> None:
    async with serving(tmp_path, OsFiles(), None, log_dirs=",".join(dirs)) as served:
        await served.ask(create_topic, "t", len(PARTITIONS))
        home = served.broker.services.cluster.catalog.data_dir
        lost = next(log.directory for log in served.broker.services.logs.logs.values() if log.data_dir != home)
    files = TroubledFiles()
    files.trouble = trouble(OSError(errno.EIO, "Input/output error"), "read", at=f"{lost}/partition.metadata")
    async with serving(tmp_path, files, None, log_dirs=",".join(dirs)) as served:
        assert served.broker.services.logs.failures.keys() == {str(Path(lost).parent)}
        assert set((await served.ask(codes_of)).values()) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
