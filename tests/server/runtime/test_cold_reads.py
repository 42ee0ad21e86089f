"""Data that is not in memory is read by worker threads: only its request waits."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.server.broker.broker import Broker
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin import delete
from support.broker.conversation import address, create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.cold_files import ColdFiles

QUIET = {"log_initial_task_delay_ms": str(10**9), "log_cleaner_enable": "false"}
PATIENCE_S = 60
DAY_MS = 86_400_000
SMALL, LARGE = 100, 300_000
SEGMENTS = 3


def values(size_bytes: int) -> list[bytes]:
    return [random.Random(at).randbytes(size_bytes) for at in range(SEGMENTS)]


@asynccontextmanager
async def restarted(tmp_path: Path, size_bytes: int, **configs: Any) -> AsyncIterator[tuple[Served, ColdFiles]]:
    """Run a broker that has just started, over a topic of one batch per segment, none of which has been read."""
    files = ColdFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t", internal_segment_bytes=size_bytes, **configs)
        for value in values(size_bytes - 90):
            row = await served.ask(produce, "t", ("k", value))
            assert row.error_code == ErrorCode.NONE
    async with serving(tmp_path, files, **QUIET) as served:
        assert len(served.broker.services.logs.logs[next(iter(served.broker.services.logs.logs))].segments) == SEGMENTS
        yield served, files


async def ask_concurrently(served: Served, request: Callable[..., Any], *arguments: Any) -> Any:
    """Send the request on a connection of its own."""
    with await trio.to_thread.run_sync(RawClient, *address(served.broker)) as other:
        return await trio.to_thread.run_sync(request, other, *arguments)


ASKED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "a fetch": (fetch, ("t", 0), {}),
    "a fetch of committed records": (fetch, ("t", 1), {"committed": True}),
    "a fetch that a limit cuts": (fetch, ("t", 1), {"max_bytes": 10}),
    "the first append after a start": (produce, ("t", ("k", "v")), {}),
}


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
@pytest.mark.parametrize("asked", ASKED)
async def test_only_the_requests_own_client_waits(tmp_path: Path, asked: str, size_bytes: int) -> None:
    request, arguments, options = ASKED[asked]
    async with restarted(tmp_path, size_bytes) as (served, files), trio.open_nursery() as nursery:
        files.evict("t-0")
        files.hang()
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await served.ask(request, *arguments, **options))

        nursery.start_soon(ask)
        with trio.fail_after(PATIENCE_S):
            await trio.to_thread.run_sync(files.wait_until_asked)
            assert await ask_concurrently(served, list_offset, "t", -1) == (ErrorCode.NONE, SEGMENTS)
        assert answers == []
        files.go_on()
    assert answers[0].error_code == ErrorCode.NONE
    if request is fetch:
        offset = arguments[1]
        assert records_of(answers[0])[0] == (offset, b"k", values(size_bytes - 90)[offset])
    assert files.held == []


async def retain(broker: Broker) -> int:
    broker.clock.advance(8 * DAY_MS)
    await broker.background_jobs.retain()
    return broker.services.logs.logs[TopicPartition("t", 0)].log_start_offset


async def choose(broker: Broker) -> int:
    chosen = await broker.services.cleaning._choose()
    assert chosen is not None
    return len(chosen.segments)


JOBS: dict[str, tuple[Callable[[Broker], Awaitable[int]], dict[str, Any], int]] = {
    "retention by time": (retain, {}, SEGMENTS),
    "the choice of a log to clean": (
        choose,
        {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0, "max_compaction_lag_ms": DAY_MS},
        SEGMENTS - 1,
    ),
}


@pytest.mark.parametrize("job", JOBS)
async def test_the_brokers_own_reads_of_old_segments_use_worker_threads(tmp_path: Path, job: str) -> None:
    do, configs, want = JOBS[job]
    async with restarted(tmp_path, SMALL, **configs) as (served, files):
        files.evict("t-0")
        assert await do(served.broker) == want
        assert files.has_been_asked and files.held == []


async def test_cleaner_status_of_old_segments_is_read_in_worker_threads(tmp_path: Path) -> None:
    async with restarted(tmp_path, SMALL) as (served, files):
        files.evict("t-0")
        asked = DescribeLogDirsRequest(topics=None, ottla_cleaner_status=True)
        answer = await trio.to_thread.run_sync(served.client.ask, asked)
        (row,) = answer.results[0].topics[0].partitions
        assert json.loads(row.ottla_cleaner_status)["cleanable_bytes"] == 2 * row.partition_size / SEGMENTS
        assert files.has_been_asked and files.held == []


async def test_all_sent_data_were_checked_for_memory_residence(tmp_path: Path) -> None:
    async with restarted(tmp_path, LARGE) as (served, files):
        files.evict("t-0")
        await served.ask(fetch, "t", 0)
        path = str(tmp_path / "t-0" / f"{0:020}.log")
        assert files.cold_pages(path, 0, LARGE - 90) == []


@pytest.mark.parametrize("size_bytes", [SMALL, LARGE])
async def test_data_in_memory_need_no_thread(tmp_path: Path, size_bytes: int) -> None:
    async with restarted(tmp_path, size_bytes) as (served, files):
        for _ in range(2):
            assert len(records_of(await served.ask(fetch, "t", 1))) == 1
        assert not files.has_been_asked


@pytest.mark.parametrize(
    ("cold", "from_page"), [("t-0", 0), (".log", 0), (".log", 1)], ids=["indexes", "headers", "what is sent"]
)
async def test_a_topic_deleted_during_the_read_is_sent_completely_or_reported(
    tmp_path: Path, cold: str, from_page: int
) -> None:
    async with restarted(tmp_path, LARGE) as (served, files), trio.open_nursery() as nursery:
        files.evict(cold, from_page=from_page)
        files.hang()
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await served.ask(fetch, "t", 0))

        nursery.start_soon(ask)
        with trio.fail_after(PATIENCE_S):
            await trio.to_thread.run_sync(files.wait_until_asked)
            await ask_concurrently(served, delete, "t")
        files.go_on()
    (answer,) = answers
    if from_page:  # it was being read
        assert records_of(answer) == [(0, b"k", values(LARGE - 90)[0])]
    else:
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert files.held == []


async def test_records_that_arrive_during_the_disk_read_complete_the_fetch(tmp_path: Path) -> None:
    files = ColdFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t")
        await served.ask(produce, "t", ("k", "v"))
    async with serving(tmp_path, files, **QUIET) as served, trio.open_nursery() as nursery:
        await served.ask(produce, "t", ("k", "v"))
        files.evict(".log")
        files.hang()
        answers: list[Any] = []

        async def ask() -> None:
            wait_ms = 2 * PATIENCE_S * 1000
            answers.append(await served.ask(partial(fetch, min_bytes=1_000, max_wait_ms=wait_ms), "t", 0))

        nursery.start_soon(ask)
        with trio.fail_after(PATIENCE_S):
            await trio.to_thread.run_sync(files.wait_until_asked)
            await ask_concurrently(served, produce, "t", ("k", "v" * 1_000))
            files.go_on()
            while not answers:
                await trio.to_thread.run_sync(bool)
    assert [offset for offset, _, _ in records_of(answers[0])] == [0, 1, 2]
