"""Waits for the disk: only requests that need a disk wait for it, and no sync runs on Trio's thread."""

from __future__ import annotations

import ast
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio
import trio.testing

import ottla.server
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import Client
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.paths import CLEAN_SHUTDOWN_FILE, CLEANER_CHECKPOINT, TopicPartition
from ottla.storage.logs.log import Log
from support.broker.admin import delete_records, grow, growth, set_topic_configs
from support.broker.background_jobs import have_on_disk
from support.broker.conversation import create_topic, produce
from support.broker.served import Served, serving
from support.cleaner.choosing import filthiest
from support.disk.troubled_files import TroubledFiles, nothing
from support.logs.batches import batch

PATIENCE_S = 60
HOUR_MS = 3_600_000
QUIET = {"log_initial_task_delay_ms": str(10**9), "log_cleaner_backoff_ms": str(10**9)}
"""Options under which jobs run only when the test starts them."""
WAITS_FOR_THE_DISK = ("sync", "rename")


# Nothing on Trio's thread


class Watched(TroubledFiles):
    """A disk that notes waits on the thread that created it."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble = self._note
        self._mine = threading.get_ident()
        self.found: Counter[str] = Counter()
        self.elsewhere = 0

    def _note(self, operation: str, path: str) -> None:
        if operation in WAITS_FOR_THE_DISK:
            if threading.get_ident() != self._mine:
                self.elsewhere += 1
                return
            frames = [each for each in traceback.extract_stack() if "/storage/" in each.filename]
            self.found[
                f"{operation} of {path.rpartition('/')[2]}: {' < '.join(each.name for each in frames[::-1])}"
            ] += 1


def log_of(broker: Broker, name: str, partition: int = 0) -> Log:
    return broker.services.logs.logs[TopicPartition(name, partition)]


async def one_life(served: Served, files: Watched, data: Path) -> None:
    """Do everything that writes, once; after each step nothing may have waited on this thread."""

    @contextmanager
    def step(name: str) -> Iterator[None]:
        before = files.elsewhere
        yield
        assert not files.found, f"{name}: {files.found}"
        assert files.elsewhere > before or name in UNSYNCED, f"{name} has synced nothing"

    broker, ask = served.broker, served.ask
    small: dict[str, Any] = {"internal_segment_bytes": 1_000, "retention_ms": HOUR_MS}
    value = "v" * 600
    with step("create topics"):
        await ask(create_topic, "plain", 3, **small)
        await ask(create_topic, "flushed", flush_messages=1, **small)
        await ask(create_topic, "both", cleanup_policy="compact,delete", min_cleanable_dirty_ratio=0, **small)
    with step("grow a topic"):
        await ask(grow, growth("plain", 5))
    with step("produce to new partitions, and roll"):
        for number in range(3):
            for partition in range(5):
                await ask(produce, "plain", (f"k{number}", value), partition=partition)
    with step("flush and roll"):
        for number in range(3):
            await ask(produce, "flushed", (f"k{number}", value))
    with step("produce to a compacted topic"):
        for number in range(5):
            await ask(produce, "both", (f"k{number % 2}", value))
    with step("sync what was rolled"):
        await broker.background_jobs.tick()
    with step("produce under new epochs"):
        for name, partition in (("plain", 0), ("plain", 1), ("both", 0)):
            broker.services.topics.partition(name, partition).leader_epoch += 1
            await ask(produce, name, ("k", value), partition=partition)
            assert log_of(broker, name, partition).leader_epochs.latest_epoch == 1
    with step("delete records"):
        for name in ("plain", "both"):
            assert await ask(delete_records, name, 2) == (ErrorCode.NONE, 2)
    with step("choose what to clean, beside a checkpoint that cannot be right"):
        OffsetCheckpoint(files, str(data / CLEANER_CHECKPOINT)).write({TopicPartition("both", 0): 1})
        files.found.clear()
        assert filthiest(broker.services.cleaning.manager, broker.clock.now_ms()) is not None
        broker.services.cleaning.manager.leave(TopicPartition("both", 0))
        await broker.services.cleaning._write_corrections()
    with step("retention"):
        broker.clock.advance(2 * HOUR_MS)
        await broker.background_jobs.retain()
        await broker.services.cleaning.delete_from_compacted_logs()
        assert [log_of(broker, name).log_start_offset for name in ("plain", "flushed", "both")] == [4, 3, 6]
    with step("checkpoints"):
        await broker.background_jobs.checkpoint_recovery_points()
        await broker.background_jobs.checkpoint_log_starts()
    with step("change options"):
        await set_topic_configs(broker, "plain", {"retention.ms": "1"})
        await broker.services.config_changes.alter_broker("", {"message.max.bytes": "100000"})
    with step("take producer ids"):
        await broker.services.producer_ids.take()
    with step("delete topics"):
        for name in ("plain", "flushed", "both"):
            topic = broker.services.topics.get(name)
            assert topic is not None
            await broker.services.topic_admin.delete(topic)
    with step("remove files"):
        broker.clock.advance(HOUR_MS)
        await broker.background_jobs.tick()


UNSYNCED = (
    "produce to new partitions, and roll",
    "produce to a compacted topic",
    "produce under new epochs",
    "remove files",
)
"""Steps that leave the sync to other threads, or need none."""


async def test_in_the_life_of_a_broker_nothing_is_synced_on_trios_thread(tmp_path: Path) -> None:
    files = Watched()
    async with serving(tmp_path, files, **QUIET) as served:
        files.found.clear()
        await one_life(served, files, tmp_path)
    assert not files.found, files.found


WITHOUT_A_LIMITER = {
    ("gc_policy.py", "run"): "memory given back to the system",
    ("run.py", "run_broker"): "the start",
    ("run.py", "_run_to_end"): "the stop",
    ("supervisor.py", "_next_run"): "nothing is open meanwhile",
    ("in_trio.py", "run_in_thread"): "in the caller's loop, not the broker's",
    ("cleaning.py", "_work"): "gives memory back",
    ("node_lines.py", "_lines"): "its own thread for as long as the process lives",
    ("serve.py", "_load_ahead"): "an import",
    ("serve.py", "warm_up"): "gives memory back",
    ("__init__.py", "loaded"): "an import",
}


def test_no_work_shares_trios_own_threads() -> None:
    """A disk that hangs, or forty passes, would use up all of Trio's threads."""
    found = set()
    for path in Path(ottla.server.__path__[0]).rglob("*.py"):
        text = path.read_text()
        for function in ast.walk(ast.parse(text if "to_thread" in text else "")):
            if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
                for call in ast.walk(function):
                    if (
                        isinstance(call, ast.Call)
                        and ast.unparse(call.func) == "trio.to_thread.run_sync"
                        and all(keyword.arg != "limiter" for keyword in call.keywords)
                    ):
                        found.add((path.name, function.name))
    assert found == set(WITHOUT_A_LIMITER)


# A disk that hangs


class Hanging(TroubledFiles):
    """A disk on which every wait below `at` lasts until the test ends it."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at
        self.waiting = 0
        self._gate = threading.Event()

    def hang(self) -> None:
        self.trouble = self._wait

    def let_on(self) -> None:
        self.trouble = nothing
        self._gate.set()

    def _wait(self, operation: str, path: str) -> None:
        if operation in ("sync", "rename", "remove", "create") and path.startswith(self.at):
            self.waiting += 1
            assert self._gate.wait(PATIENCE_S)


@asynccontextmanager
async def two_disks(tmp_path: Path, **overrides: str) -> AsyncIterator[tuple[Served, Hanging]]:
    """Run a broker with two data directories, of which the first may hang."""
    files = Hanging(str(tmp_path / "a"))
    async with serving(Path(f"{tmp_path / 'a'},{tmp_path / 'b'}"), files, **{**QUIET, **overrides}) as served:
        try:
            yield served, files
        finally:
            files.let_on()


def append(broker: Broker, log: Log) -> None:
    now_ms = broker.clock.now_ms()
    log.append(memoryview(batch(("k", "v" * 600), timestamp=now_ms)), now_ms=now_ms)


async def test_a_disk_that_hangs_keeps_nobody_on_another_disk_waiting(tmp_path: Path) -> None:
    async with two_disks(tmp_path) as (served, files):
        broker = served.broker
        config: dict[str, Any] = {"retention_ms": HOUR_MS, "internal_segment_bytes": 1_000}
        await served.ask(create_topic, "t", 100, flush_messages=1, **config)
        have_on_disk(broker)
        sick = broker.services.logs.logs_in(str(tmp_path / "a"))
        sound = broker.services.logs.logs_in(str(tmp_path / "b"))
        assert len(sick) == len(sound) == 50
        sound = sound[:3]
        files.hang()
        async with trio.open_nursery() as nursery:
            for log in sick:
                append(broker, log)
                nursery.start_soon(broker.services.appends.flusher.flush, [log])
            for job in (broker.background_jobs.tick, broker.background_jobs.checkpoint_recovery_points):
                nursery.start_soon(job)
            await trio.testing.wait_all_tasks_blocked(0.05)
            with trio.fail_after(PATIENCE_S / 2):
                assert files.waiting > 0
                for log in sound:
                    append(broker, log)
                    append(broker, log)
                await broker.services.appends.flusher.flush(sound)
                assert all(log.recovery_point == log.log_end_offset for log in sound)
                answer = await served.ask(produce, "t", ("k", "v"), partition=sound[0].topic_partition.partition)
                assert answer.error_code == 0
                assert await served.ask(delete_records, "t", 1, sound[1].topic_partition.partition) == (
                    ErrorCode.NONE,
                    1,
                )
                broker.clock.advance(2 * HOUR_MS)
                for job in (broker.background_jobs.tick, broker.background_jobs.retain):
                    await job(str(tmp_path / "b"))
                await broker.background_jobs.checkpoint_log_starts(str(tmp_path / "b"))
                assert sound[2].log_start_offset == 2
                assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
            assert all(log.recovery_point == 0 for log in sick)
            files.let_on()
        assert all(log.recovery_point == 1 for log in sick)


# Many logs at once


def produce_to_many(client: Client, topic: str, partitions: int) -> Sequence[PartitionProduceResponse]:
    """Send one request with a batch for each partition; return the rows of the answer."""
    data = tuple(PartitionProduceData(index=index, records=batch(("k", "v"))) for index in range(partitions))
    wanted = TopicProduceData(name=topic, partition_data=data)
    answer = client.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=5_000, topic_data=(wanted,)), 9)
    rows: Sequence[PartitionProduceResponse] = answer.responses[0].partition_responses
    return rows


async def test_a_request_to_many_logs_that_are_to_be_flushed_waits_for_their_syncs_together(tmp_path: Path) -> None:
    """Each sync waits until all others have begun, so one after the other would never end."""
    meeting = threading.Barrier(8)
    files = TroubledFiles()

    def meet(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log"):
            meeting.wait(PATIENCE_S)

    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t", 8, flush_messages=1)
        have_on_disk(served.broker)
        for log in served.broker.services.logs.logs.values():
            log.leader_epochs.assign(0, 0)
            log.leader_epochs.write()
        files.trouble = meet
        rows = await served.ask(produce_to_many, "t", 8)
        files.trouble = nothing
        assert [(row.index, row.error_code, row.base_offset) for row in rows] == [(index, 0, 0) for index in range(8)]
        assert all(log.recovery_point == 1 for log in served.broker.services.logs.logs.values())


async def test_of_a_request_to_many_logs_those_are_refused_that_could_not_be_synced(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t", 3, flush_messages=1)
        have_on_disk(served.broker)

        def refuse(operation: str, path: str) -> None:
            if operation == "sync" and "/t-1/" in path:
                raise MemoryError

        files.trouble = refuse
        rows = await served.ask(produce_to_many, "t", 3)
        files.trouble = nothing
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (0, 0),
            (ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (0, 0),
        ]


# At a stop


def test_a_clean_stop_closes_several_logs_at_a_time(tmp_path: Path) -> None:
    """The two syncs of each pair wait for each other."""
    partners, files = threading.Barrier(2, timeout=PATIENCE_S), TroubledFiles()

    def meet(operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log"):
            partners.wait()

    async def main() -> None:
        async with serving(tmp_path, files, **QUIET) as served:
            await trio.to_thread.run_sync(partial(create_topic, served.client, "t", partitions=20))
            for each in served.broker.services.logs.logs.values():
                each.append(memoryview(batch(("k", "v"))), now_ms=1_000)
            files.trouble = meet

    trio.run(main)
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
