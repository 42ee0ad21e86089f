"""Batches of megabytes are written by a worker thread: only their connection and the partition's other producers wait."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from support.broker.admin import delete
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.troubled_files import TroubledFiles, full, nothing, trouble
from support.logs.batches import batch

PATIENCE_S = 60
QUIET = {"log_initial_task_delay_ms": str(10**9), "log_cleaner_backoff_ms": str(10**9)}
LARGE = ("large", "v" * 1_000)


@pytest.fixture(autouse=True)
def small_batches_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "AT_ONCE_WRITTEN_BYTES", 800)


class HangingWrites:
    """A disk that accepts no write from worker threads until the test lets it."""

    def __init__(self) -> None:
        self.reached, self._gate = threading.Semaphore(0), threading.Event()
        self._trio_thread = threading.get_ident()
        self.writes = 0

    def __call__(self, operation: str, path: str) -> None:
        if operation == "append" and path.endswith(".log") and threading.get_ident() != self._trio_thread:
            self.writes += 1
            self.reached.release()
            assert self._gate.wait(PATIENCE_S)

    async def wait_until_reached(self) -> None:
        assert await trio.to_thread.run_sync(self.reached.acquire, True, PATIENCE_S)

    def let_on(self) -> None:
        self._gate.set()


def log_of(served: Served, topic: str = "t") -> Log:
    return served.broker.services.logs.logs[TopicPartition(topic, 0)]


async def keys(served: Served, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [key for _, key, _ in records_of(await served.ask(fetch, "t", len(found)))]
    return found


async def produce_concurrently(
    served: Served, answers: list[tuple[str, int]], topic: str, pair: tuple[str, str]
) -> None:
    """Produce on a connection of its own."""

    def ask() -> Any:
        with RawClient(*address(served.broker)) as client:
            return produce(client, topic, pair)

    row = await trio.to_thread.run_sync(ask)
    answers.append((pair[0], row.base_offset if row.error_code == ErrorCode.NONE else -row.error_code))


async def test_during_the_write_only_producers_of_the_partition_wait(tmp_path: Path) -> None:
    files, hanging = TroubledFiles(), HangingWrites()
    answers: list[tuple[str, int]] = []
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        for topic in ("t", "u"):
            await served.ask(create_topic, topic)
        files.trouble = hanging
        with trio.fail_after(PATIENCE_S):
            nursery.start_soon(produce_concurrently, served, answers, "t", LARGE)
            await hanging.wait_until_reached()
            for number in range(3):
                nursery.start_soon(produce_concurrently, served, answers, "t", (f"waits {number}", "v"))
            assert (await served.ask(produce, "u", ("k", "v"))).base_offset == 0
            assert not (await served.ask(fetch, "t", 0)).records
            assert not answers
            hanging.let_on()
            while len(answers) < 4:
                await trio.lowlevel.checkpoint()
        assert ("large", 0) in answers and hanging.writes == 1
        assert sorted(offset for _, offset in answers) == [0, 1, 2, 3]
        assert not served.broker.services.appends.large
        assert len(set(await keys(served, 4))) == 4


async def test_a_marker_does_not_wait_and_the_batch_is_written_again(tmp_path: Path) -> None:
    files, hanging = TroubledFiles(), HangingWrites()
    answers: list[tuple[str, int]] = []
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        await served.ask(create_topic, "t")
        files.trouble = hanging
        with trio.fail_after(PATIENCE_S):
            nursery.start_soon(produce_concurrently, served, answers, "t", LARGE)
            await hanging.wait_until_reached()
            served.broker.services.appends.append_own(TopicPartition("t", 0), batch(("marker", "v")))
            hanging.let_on()
            while not answers:
                await trio.lowlevel.checkpoint()
        assert answers == [("large", 1)] and hanging.writes == 2
        assert await keys(served, 2) == [b"marker", b"large"]


@pytest.mark.parametrize("place", ["in the worker", "at its end"])
async def test_a_full_disk_refuses_a_large_append_and_accepts_the_next(tmp_path: Path, place: str) -> None:
    files = TroubledFiles()
    asked = 0

    def full_at_the_end(operation: str, path: str) -> None:
        nonlocal asked
        asked += operation == "append" and path.endswith(".log")
        if asked == 2:
            full("/t-0/")(operation, path)

    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t")
        await served.ask(produce, "t", ("before", "it"))
        files.trouble = full("/t-0/") if place == "in the worker" else full_at_the_end
        refused = await served.ask(produce, "t", LARGE)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        files.trouble = nothing
        assert log_of(served).failure is None and not served.broker.services.appends.large
        path = log_of(served).segments.active.file_paths()[0]
        assert Path(path).stat().st_size == log_of(served).size_bytes
        assert (await served.ask(produce, "t", LARGE)).base_offset == 1
    async with serving(tmp_path, files, **QUIET) as served:
        assert await keys(served, 2) == [b"before", b"large"]


async def test_a_topic_deleted_during_the_write_refuses_the_append(tmp_path: Path) -> None:
    files, hanging = TroubledFiles(), HangingWrites()
    answers: list[tuple[str, int]] = []
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        await served.ask(create_topic, "t")
        files.trouble = hanging
        with trio.fail_after(PATIENCE_S):
            nursery.start_soon(produce_concurrently, served, answers, "t", LARGE)
            await hanging.wait_until_reached()
            await served.ask(delete, "t")
            hanging.let_on()
            while not answers:
                await trio.lowlevel.checkpoint()
        assert answers[0][1] < 0


async def test_an_unreadable_old_segment_refuses_the_first_append(tmp_path: Path) -> None:
    """A worker thread reads the old records, and the request does not wait for ever."""
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t")
        await served.ask(produce, "t", ("k", "v"))
    async with serving(tmp_path, files, **QUIET) as served:
        files.trouble = trouble(OSError(errno.EMFILE, "Too many open files"), "open", "read", at="/t-0/")
        with trio.fail_after(PATIENCE_S):
            refused = await served.ask(produce, "t", ("k", "v"))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        files.trouble = nothing
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == 1
