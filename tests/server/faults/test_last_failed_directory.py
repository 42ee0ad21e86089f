"""Failure of the last data directory, or the catalog's: the broker ends, as Apache Kafka's does."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.server.broker.supervisor import Supervisor
from ottla.server.commands.serve import StopSignals, _run
from ottla.server.config.static_config import static_config
from ottla.server.faults.declaration import Declaration
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.files import Files
from support.broker.conversation import create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.disk.troubled_files import TroubledFiles, full, nothing, trouble
from support.lives.in_lives import ask, lives_in

PARTITIONS = range(6)
EIO = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("a", "b", "c")]


def failing(files: TroubledFiles, *dirs: str) -> None:
    def raise_it(operation: str, path: str) -> None:
        if operation in ("append", "create", "sync", "rename") and path.startswith(tuple(f"{each}/" for each in dirs)):
            raise EIO

    files.trouble = raise_it


def written(client: RawClient, partition: int) -> int:
    """Produce; return the error code, KAFKA_STORAGE_ERROR also if the broker had no time to answer."""
    try:
        return produce(client, "t", ("k", "v"), partition=partition).error_code
    except ConnectionError:
        return ErrorCode.KAFKA_STORAGE_ERROR


async def touch_all(supervisor: Supervisor) -> list[int]:
    return [(await ask(supervisor, lambda client: written(client, partition)))[0] for partition in PARTITIONS]  # noqa: B023


async def test_the_broker_ends_exactly_with_its_last_directory(tmp_path: Path, dirs: list[str]) -> None:
    files = TroubledFiles()
    async with lives_in(",".join(dirs), files) as supervisor:
        home = supervisor.broker.services.cluster.catalog.data_dir
        first, second = (each for each in dirs if each != home)
        await ask(supervisor, lambda client: create_topic(client, "t", len(PARTITIONS)))
        assert set(await touch_all(supervisor)) == {0}
        for failed in ([first], [first, second]):
            failing(files, *failed)
            assert set(await touch_all(supervisor)) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
            assert supervisor.state == "serving"
        failing(files, *dirs)
        with trio.fail_after(60):
            while supervisor.state == "serving":
                table = supervisor.broker.services.logs.logs
                (last,) = [each for each in table if table[each].data_dir == home and each.topic == "t"][:1]
                try:
                    await ask(supervisor, lambda client: written(client, last.partition))  # noqa: B023
                except OSError:
                    await trio.lowlevel.checkpoint()
        assert supervisor.state == "down" and supervisor.disks_lost.is_set()
        assert str(supervisor.failure).startswith("all data directories have failed: ")
        files.trouble = nothing
        await supervisor.restart()
        assert set(await touch_all(supervisor)) == {0}


async def test_a_full_disk_does_not_end_the_broker(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        await ask(supervisor, lambda client: create_topic(client, "t"))
        files.trouble = full()
        assert await ask(supervisor, lambda client: produce(client, "t", ("k", "v")).error_code) == [
            ErrorCode.KAFKA_STORAGE_ERROR
        ]
        files.trouble = nothing
        assert await ask(supervisor, lambda client: produce(client, "t", ("k", "v")).error_code) == [0]
        assert supervisor.state == "serving" and not supervisor.disks_lost.is_set()


async def test_without_the_catalog_the_broker_continues_until_the_timeout(tmp_path: Path, dirs: list[str]) -> None:
    files, clock = TroubledFiles(), Clock(monotonic=lambda: 0)
    async with lives_in(",".join(dirs), files, clock=clock, log_dir_failure_timeout_ms="5000") as supervisor:
        await ask(supervisor, lambda client: create_topic(client, "t", len(PARTITIONS)))
        failing(files, supervisor.broker.services.cluster.catalog.data_dir)
        assert set(await touch_all(supervisor)) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
        await trio.testing.wait_all_tasks_blocked()
        clock.advance(4_999)
        await trio.testing.wait_all_tasks_blocked()
        assert set(await touch_all(supervisor)) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
        ended = supervisor.ended
        clock.advance(1)
        await ended.wait()
        assert str(supervisor.failure).startswith("the data directory of the catalog has failed: ")
        files.trouble = nothing
        await supervisor.restart()
        assert set(await touch_all(supervisor)) == {0}
        assert len(records_of((await ask(supervisor, lambda client: fetch(client, "t", 0)))[0])) >= 1


async def test_a_program_ends_with_exit_code_1_and_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    files = TroubledFiles()
    static = static_config(
        profile="dev", flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), "node.id": "0"}
    )
    codes: list[int] = []

    async def serve() -> None:
        codes.append(await _run(static, None, None, None, StopSignals(), files))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with trio.fail_after(60):
            while not (ready := capsys.readouterr().out):
                await trio.sleep(0.01)
        await trio.to_thread.run_sync(_fail, ready.split()[1], files)
    assert codes == [1]
    (line,) = [each.getMessage() for each in caplog.records if "has stopped" in each.getMessage()]
    assert line == f"all data directories have failed: {tmp_path}: {EIO}: the broker has stopped"


def _fail(address: str, files: Files) -> None:
    host, _, port = address.rpartition(":")
    assert isinstance(files, TroubledFiles)
    with RawClient(host, int(port)) as client:
        create_topic(client, "t")
        files.trouble = trouble(EIO, "append", at="t-0")
        written(client, 0)


async def test_a_directory_failed_by_a_removed_fault_does_not_end_the_program(tmp_path: Path, dirs: list[str]) -> None:
    clock = Clock(monotonic=lambda: 0)
    async with lives_in(",".join(dirs), clock=clock, log_dir_failure_timeout_ms="5000") as supervisor:
        await ask(supervisor, lambda client: create_topic(client, "t", len(PARTITIONS)))
        home = supervisor.broker.services.cluster.catalog.data_dir
        fault = supervisor.faults.declare(Declaration(disk="failed", data_dir=home))
        assert set(await touch_all(supervisor)) == {0, ErrorCode.KAFKA_STORAGE_ERROR}
        fault.remove()
        ended = supervisor.ended
        clock.advance(5_000)
        await ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert supervisor.state == "down" and not supervisor.disks_lost.is_set()
        await supervisor.restart()
        assert set(await touch_all(supervisor)) == {0}


async def test_a_declared_slow_disk_does_not_explain_another_disks_failure(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with lives_in(tmp_path, files) as supervisor:
        await ask(supervisor, lambda client: create_topic(client, "t"))
        supervisor.faults.declare(Declaration(disk="slow", delay_ms=1))
        failing(files, str(tmp_path))
        await ask(supervisor, lambda client: written(client, 0))
        with trio.fail_after(60):
            await supervisor.disks_lost.wait()
