"""A disk that refuses operations: the answer is KAFKA_STORAGE_ERROR, nothing is left half done, and a second try works."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.server.config.resources import ConfigResourceType
from ottla.storage.disk.os_files import OsFile, OsFiles
from support.broker.admin import create, delete, grow, growth, metadata, topic_names, wanted
from support.broker.background_jobs import have_on_disk
from support.broker.conversation import address, create_topic, fetch, produce
from support.broker.raw_client import RawClient
from support.broker.served import serving


class RefusingFiles(OsFiles):
    """A real disk on which opening, creating or renaming a path fails, as on a full disk, if `refuses` is true for it."""

    def __init__(self) -> None:
        self.refuses: Callable[[str], bool] = lambda _: False

    def _ask(self, path: str) -> None:
        if self.refuses(path):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create or truncate:
            self._ask(path)
        return super().open(path, create=create, truncate=truncate)

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        self._ask(path)
        super().make_dir(path, mode=mode)

    def rename(self, old: str, new: str) -> None:
        self._ask(new)
        super().rename(old, new)

    def sync_dir(self, path: str) -> None:
        self._ask(path)
        super().sync_dir(path)

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        self._ask(path)
        return super().disk_total_and_free(path)


@pytest.fixture
def disk() -> RefusingFiles:
    return RefusingFiles()


def is_catalog(path: str) -> bool:
    return "ottla.json" in path


def is_partition(name: str) -> Callable[[str], bool]:
    return lambda path: path.rstrip("/").endswith(f"/{name}")


def test_refusing_files_refuse_only_the_selected_operations(tmp_path: Path) -> None:
    disk = RefusingFiles()
    disk.make_dir(str(tmp_path / "a"))
    disk.refuses = is_partition("b")
    with pytest.raises(OSError, match="No space left"):
        disk.make_dir(str(tmp_path / "b"))
    with pytest.raises(OSError, match="No space left"):
        disk.rename(str(tmp_path / "a"), str(tmp_path / "b"))
    with pytest.raises(OSError, match="No space left"):
        disk.open(str(tmp_path / "b"), create=True)
    disk.rename(str(tmp_path / "a"), str(tmp_path / "c"))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def nothing(_: str) -> bool:
    return False


async def test_a_topic_that_the_disk_refuses_does_not_exist(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        disk.refuses = is_catalog
        (row,) = await served.ask(create, wanted("t", 3))
        assert (row.error_code, "No space left" in row.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
        assert await served.ask(topic_names) == set()
        assert not served.broker.services.cluster.catalog.topics and not served.broker.services.logs.logs
        disk.refuses = nothing
        assert (await served.ask(create_topic, "t", partitions=3)).error_code == ErrorCode.NONE
        assert (await served.ask(produce, "t", ("k", "v"), partition=2)).base_offset == 0


LOGS: dict[str, Callable[[str], bool]] = {
    "the directory": is_partition("t-2"),
    "the id": is_partition("t-2/partition.metadata"),
    "the log": is_partition("t-2/00000000000000000000.log"),
}


@pytest.mark.parametrize("refuses", LOGS.values(), ids=LOGS.keys())
async def test_appends_and_background_jobs_retry_a_log_that_the_disk_refused(
    tmp_path: Path, disk: RefusingFiles, refuses: Callable[[str], bool]
) -> None:
    async with serving(tmp_path, disk, log_initial_task_delay_ms=str(10**9)) as served:
        disk.refuses = refuses
        (row,) = await served.ask(create, wanted("t", 4))
        assert row.error_code == ErrorCode.NONE
        assert (await served.ask(produce, "t", ("k", "v"), partition=2)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(2):  # the first check finds more than there were, and waits for the last of them
            with suppress(KafkaError):
                await served.broker.background_jobs.make_logs(str(tmp_path))
        logs = served.broker.services.logs
        assert [log.topic_partition.partition for log in logs.unmade(str(tmp_path))] == [2]
        disk.refuses = nothing
        assert (await served.ask(produce, "t", ("k", "v"), partition=2)).base_offset == 0
        assert not logs.unmade(str(tmp_path)) and not logs.failures


async def test_a_topic_that_cannot_grow_is_unchanged(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t")
        await served.ask(produce, "t", ("k", "v"))
        disk.refuses = is_catalog
        (row,) = await served.ask(grow, growth("t", 4))
        assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len((await served.ask(metadata, "t")).topics[0].partitions) == 1
        disk.refuses = nothing
        await served.ask(grow, growth("t", 3))
        assert len(served.broker.services.cluster.catalog.topics["t"].partitions) == 3
        assert (await served.ask(produce, "t", ("k", "v"), partition=2)).base_offset == 0
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == 1


async def test_a_topic_that_the_catalog_cannot_forget_stays(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t")
        disk.refuses = is_catalog
        (row,) = await served.ask(delete, "t")
        assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == 0


async def test_a_topic_whose_directory_cannot_be_renamed_is_deleted(
    tmp_path: Path, disk: RefusingFiles, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t")
        have_on_disk(served.broker)
        disk.refuses = lambda path: path.endswith("-delete")
        (row,) = await served.ask(delete, "t")
        assert row.error_code == ErrorCode.NONE
        assert (await served.ask(fetch, "t", 0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "cannot rename the directories of deleted partitions" in caplog.text
    async with serving(tmp_path, disk) as served:
        assert await served.ask(topic_names) == set()
        assert [path.name[-6:] for path in tmp_path.glob("t*")] == ["-stray"]


async def test_a_config_that_cannot_be_written_has_no_effect(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t")
        disk.refuses = is_catalog
        for kind, name in ((ConfigResourceType.TOPIC, "t"), (ConfigResourceType.BROKER, "")):
            change = AlterableConfig(name="max.message.bytes" if name else "message.max.bytes", value="100")
            kept = AlterableConfig(name="min.insync.replicas", value="1")  # which no change of all nodes may leave out
            resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change, kept))
            (row,) = (await served.ask(RawClient.ask, AlterConfigsRequest(resources=(resource,)))).responses
            assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await served.ask(produce, "t", ("k", "v" * 200))).error_code == ErrorCode.NONE


async def test_a_node_whose_stop_or_start_cannot_be_recorded_is_unchanged(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t")
        disk.refuses = is_catalog
        with pytest.raises(KafkaError, match="No space left"):
            await served.broker.stop_node(0)
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == 0
        disk.refuses = nothing
        await served.broker.stop_node(0)
        disk.refuses = is_catalog
        with pytest.raises(KafkaError, match="No space left"):
            await served.broker.start_node(0)
        with pytest.raises(ConnectionRefusedError):
            RawClient(*address(served.broker))
        disk.refuses = nothing
        await served.broker.start_node(0)
        with RawClient(*address(served.broker)) as client:
            assert (await trio.to_thread.run_sync(produce, client, "t", ("k", "v"))).base_offset == 1


async def test_no_producer_id_is_given_before_it_is_recorded(tmp_path: Path, disk: RefusingFiles) -> None:
    async with serving(tmp_path, disk) as served:
        disk.refuses = is_catalog
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        answer = await served.ask(RawClient.ask, request)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        disk.refuses = nothing
        answer = await served.ask(RawClient.ask, request)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.NONE, 0)


async def test_a_directory_without_readable_free_space_is_described_as_failed(
    tmp_path: Path, disk: RefusingFiles
) -> None:
    async with serving(tmp_path, disk) as served:
        disk.refuses = lambda path: path == str(tmp_path)
        (row,) = (await served.ask(RawClient.ask, DescribeLogDirsRequest(topics=None))).results
        assert (row.error_code, row.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, str(tmp_path))


async def test_records_that_cannot_be_synced_are_not_acknowledged_and_the_connection_continues(
    tmp_path: Path, disk: RefusingFiles
) -> None:
    async with serving(tmp_path, disk) as served:
        await served.ask(create_topic, "t", flush_messages=1)
        have_on_disk(served.broker)
        syncs = iter((False, True))  # of the directory: the leader epoch's, then that of the flush
        disk.refuses = lambda path: path.endswith("/t-0") and next(syncs)
        refused = await served.ask(produce, "t", ("k", "v"))
        assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        disk.refuses = nothing
        assert await served.ask(topic_names) == {"t"}
