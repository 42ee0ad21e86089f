"""The cleaner's threads at work in a broker: in parallel, throttled, with other options, on damaged logs."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from ottla.server.broker.broker import Broker
from ottla.server.cleaning.advice import CleanerStatus
from ottla.server.runtime import time_slices
from ottla.storage.cleaning import cleaner_manager
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFile, OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.broker.admin import delete_records, set_topic_configs
from support.broker.conversation import create_topic, list_offset, produce
from support.broker.served import Served, serving
from support.cleaner.choosing import filthiest
from support.disk.gated_files import GatedFiles
from support.passes import counting_passes

T_0 = TopicPartition("t", 0)
BATCHES = 10
PATIENCE_S = 60
CLEANER = "kafka.log:type=LogCleaner,name="
MANAGER = "kafka.log:type=LogCleanerManager,name="
SMALL = {"cleanup_policy": "compact", "internal_segment_bytes": 1000}
NEVER: dict[str, Any] = {"min_cleanable_dirty_ratio": 1}
ALWAYS: dict[str, Any] = {"min_cleanable_dirty_ratio": 0}


async def until(holds: Callable[[], bool]) -> None:
    """Return once the condition holds, while the broker continues its work."""
    with trio.fail_after(PATIENCE_S):
        while not holds():
            await trio.to_thread.run_sync(bool)  # lets the broker's threads run as well


async def fill(served: Served, topic: str = "t", batches: int = BATCHES, **configs: Any) -> None:
    """Fill a topic with one segment per batch, each with one of three keys."""
    await served.ask(create_topic, topic, **{**SMALL, **ALWAYS, **configs})
    for number in range(batches):
        await served.ask(produce, topic, (f"k{number % 3}", "v" * 600))


async def set_topic(broker: Broker, **configs: Any) -> None:
    texts = {name.replace("_", "."): str(value) for name, value in {**SMALL, **configs}.items()}
    await set_topic_configs(broker, "t", texts)


async def set_broker(broker: Broker, **configs: Any) -> None:
    """Replace the dynamic configs of all nodes, whatever they were."""
    await broker.services.config_changes.alter_broker(
        "", {name.replace("_", "."): str(value) for name, value in configs.items()}
    )


def status(broker: Broker, partition: TopicPartition = T_0) -> CleanerStatus:
    return broker.cleaner_status()[partition]


def is_clean(broker: Broker, topic: str = "t") -> bool:
    """Return whether a pass has cleaned everything except the active segment, and is counted."""
    found = status(broker, TopicPartition(topic, 0)).eligibility
    return found.first_dirty_offset == BATCHES - 1 and found.state == "not held"


# In parallel


class MeetingFiles(OsFiles):
    """A disk on which passes wait at their first `.cleaned` segment until `passes` of them have arrived."""

    def __init__(self, passes: int) -> None:
        self.met: list[str] = []
        self._met = threading.Barrier(passes)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        directory = str(Path(path).parent)
        if ".log.cleaned" in path and directory not in self.met:
            self.met.append(directory)
            self._met.wait(PATIENCE_S)
        return super().open(path, create=create, truncate=truncate)


async def test_two_threads_clean_two_logs_at_a_time_and_never_one(tmp_path: Path) -> None:
    files = MeetingFiles(2)
    async with serving(tmp_path, files, log_cleaner_threads="2", log_cleaner_backoff_ms="1") as served:
        await fill(served, "t")
        await fill(served, "u")
        await until(lambda: is_clean(served.broker, "t") and is_clean(served.broker, "u"))
        assert sorted(files.met) == [str(tmp_path / "t-0"), str(tmp_path / "u-0")]
        assert [thread.last_stats is not None for thread in served.broker.services.cleaning.threads] == [True, True]


async def test_a_second_thread_finds_nothing_while_the_only_log_is_being_cleaned(tmp_path: Path) -> None:
    files = GatedFiles()
    async with serving(tmp_path, files, log_cleaner_threads="2", log_cleaner_backoff_ms="1") as served:
        await fill(served)
        await files.reached()
        manager = served.broker.services.cleaning.manager
        assert filthiest(manager, 10**15) is None and not manager.begin_retention(
            served.broker.services.logs.logs[T_0], compacted=True
        )
        assert status(served.broker).eligibility.waits_for == "held"
        files.let_on()
        await until(lambda: is_clean(served.broker))


async def test_an_abandoned_pass_does_not_delay_the_next_log(tmp_path: Path) -> None:
    files = GatedFiles()
    async with serving(tmp_path, files, log_cleaner_backoff_ms=str(10**9)) as served:
        broker = served.broker
        await fill(served, "u")
        await fill(served, "t")
        broker.clock.advance(10**9)
        await files.reached()
        (given_up,) = [tp for tp, found in broker.cleaner_status().items() if found.eligibility.state == "in progress"]
        (other,) = {"t", "u"} - {given_up.topic}
        await set_topic_configs(broker, given_up.topic, {"cleanup.policy": "delete", "internal.segment.bytes": "1000"})
        files.let_on()
        await until(lambda: is_clean(broker, other))
        assert status(broker, given_up).passes == 0


class Descriptor(OsFile):
    """A descriptor that notes in which thread it is closed."""

    def __init__(self, descriptor: int, path: str, closed: list[tuple[str, bool]]) -> None:
        super().__init__(descriptor)
        self._path, self._closed = path, closed

    def close(self) -> None:
        if self._descriptor >= 0:
            self._closed.append((self._path, threading.current_thread() is threading.main_thread()))
        super().close()


class WatchedFiles(GatedFiles):
    """A disk that notes which log files were closed, and whether Trio's thread did it. Newly created files are not watched."""

    def __init__(self, at: str) -> None:
        super().__init__(at)
        self.closed: list[tuple[str, bool]] = []

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        file = super().open(path, create=create, truncate=truncate)
        if create or not path.endswith(".log"):
            return file
        return Descriptor(os.dup(file.fileno()), Path(path).name, self.closed)


@pytest.mark.parametrize("given_up", [False, True])
async def test_replaced_files_of_a_pass_are_closed_in_its_thread(tmp_path: Path, given_up: bool) -> None:
    """The files of a long pass may have been deleted during it: closing a file takes the system the longer the larger it is."""
    files = WatchedFiles(f"{3:020}.log.cleaned")
    async with serving(tmp_path, files, log_cleaner_backoff_ms=str(10**9)) as served:
        await fill(served)
        gc.disable()
        try:
            served.broker.clock.advance(10**9)
            await files.reached()
            if given_up:
                await set_topic(served.broker, cleanup_policy="delete", retention_ms=-1)
            files.let_on()
            await until(lambda: status(served.broker).eligibility.state != "in progress")
            replaced = range(3) if given_up else range(BATCHES - 1)
            await until(lambda: len(files.closed) >= len(replaced))
            assert sorted(files.closed) == [(f"{at:020}.log", False) for at in replaced]
        finally:
            gc.enable()


# Figures of a pass


async def test_a_pass_leaves_statistics_and_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.cleaner")
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        await fill(served, **NEVER)
        broker = served.broker
        assert (status(broker).passes, status(broker).last_pass) == (0, None)
        await set_topic(broker, **ALWAYS)
        await until(lambda: is_clean(broker))
        found = status(broker)
        assert found.passes == 1 and found.last_pass is not None
        stats = found.last_pass.stats
        assert (found.last_pass.end_offset, stats.removed.superseded) == (BATCHES - 1, BATCHES - 4)
        assert 0 <= stats.map_seconds <= stats.seconds
        assert stats.throttled_seconds == 0
        (line,) = [record.message for record in caplog.records if record.message.startswith("cleaned t-0")]
        for told in (
            f"from 0 to {BATCHES - 1} in ",
            f"{BATCHES - 1} -> 3 records (removed: {BATCHES - 4} superseded, 0 keyless, 0 tombstones, 0 aged, 0 aborted, 0 markers)",
            f"{BATCHES - 1} -> {BATCHES - 1} segments",
            f"3 keys of {BATCHES - 1} records",
        ):
            assert told in line
        throttled_bytes = broker.metrics()["kafka.utils:type=Throttler,name=cleaner-io#Count"]
        assert throttled_bytes == stats.map_bytes_read + stats.bytes_read + stats.bytes_written


async def test_counts_are_deleted_with_the_partition(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        await fill(served)
        broker = served.broker
        await until(lambda: is_clean(broker))
        topic = broker.services.topics.get("t")
        assert topic is not None
        await broker.services.topic_admin.delete(topic)
        assert broker.cleaner_status() == {}
        await served.ask(create_topic, "t")
        assert status(broker).passes == 0


# Throttled


@asynccontextmanager
async def standing_still(tmp_path: Path, clock: trio.testing.MockClock) -> AsyncIterator[Served]:
    """Run a broker whose first pass, over topic t, waits for a throttle of rate 0."""
    files = GatedFiles()
    limits = {"log_cleaner_io_max_bytes_per_second": "0", "log_cleaner_backoff_ms": "1"}
    async with serving(tmp_path, files, **limits) as served:
        await fill(served, **NEVER)
        await set_topic(served.broker, **ALWAYS)
        await files.reached()
        clock.jump(1)  # a period of the throttler is over, so the next bytes count
        files.let_on()
        woken = served.broker.services.cleaning.throttler._woken
        await until(lambda: woken.statistics().tasks_waiting == 1)
        clock.jump(10)
        yield served


def run_with_a_clock_that_jumps(test: Callable[[trio.testing.MockClock], Any]) -> None:
    clock = trio.testing.MockClock(rate=1)
    trio.run(test, clock, clock=clock)


@pytest.mark.scenario(49, 98)
def test_a_changed_limit_applies_to_the_running_pass(tmp_path: Path) -> None:
    async def main(clock: trio.testing.MockClock) -> None:
        async with standing_still(tmp_path, clock) as served:
            broker, threads = served.broker, served.broker.services.cleaning.threads
            await set_broker(broker, log_cleaner_io_max_bytes_per_second=50_000_000)
            await until(lambda: is_clean(broker))
            found = status(broker)
            assert found.passes == 1 and found.last_pass is not None
            assert found.last_pass.stats.throttled_seconds >= 10
            assert broker.metrics()[f"{CLEANER}max-clean-time-secs"] >= 11
            assert broker.services.cleaning.threads is threads

    run_with_a_clock_that_jumps(main)


@pytest.mark.parametrize("change", ["another policy", "a deletion", "other options"])
def test_an_operation_that_needs_the_log_does_not_wait_for_the_throttle(tmp_path: Path, change: str) -> None:
    async def main(clock: trio.testing.MockClock) -> None:
        async with standing_still(tmp_path, clock) as served:
            broker = served.broker
            topic = broker.services.topics.get("t")
            assert topic is not None
            if change == "another policy":
                await set_topic(broker, cleanup_policy="delete")
                await until(lambda: status(broker).eligibility.state == "not held")
            elif change == "a deletion":
                await broker.services.topic_admin.delete(topic)
            else:
                threads = broker.services.cleaning.threads
                await set_broker(broker, log_cleaner_threads=2)
                await until(lambda: broker.services.cleaning.threads is not threads)
            assert T_0 not in broker.cleaner_status() or status(broker).passes == 0

    run_with_a_clock_that_jumps(main)


def test_a_stop_does_not_wait_for_the_throttle(tmp_path: Path) -> None:
    async def main(clock: trio.testing.MockClock) -> None:
        async with standing_still(tmp_path, clock) as served:
            with trio.move_on_after(PATIENCE_S):
                await served.ask(list_offset, "t", -1)
        assert OffsetCheckpoint(OsFiles(), str(tmp_path / "cleaner-offset-checkpoint")).read() == {T_0: 0}

    run_with_a_clock_that_jumps(main)


# Other options


async def test_a_pass_restarts_with_changed_options(tmp_path: Path) -> None:
    files = GatedFiles()
    async with serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        await fill(served)
        await files.reached()
        broker, checkpoint = served.broker, OffsetCheckpoint(files, str(tmp_path / "cleaner-offset-checkpoint"))
        await set_broker(broker, log_cleaner_threads=2)
        files.let_on()
        await until(lambda: len(broker.services.cleaning.threads) == 2)
        assert checkpoint.read() == {T_0: 0}
        await until(lambda: is_clean(broker))
        assert checkpoint.read() == {T_0: BATCHES - 1}


@pytest.mark.scenario(84, 188)
async def test_dead_threads_are_replaced_when_options_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1", log_cleaner_threads="2") as served:
        broker = served.broker
        no_room = {"log_cleaner_io_buffer_load_factor": 1e-9}
        await set_broker(broker, **no_room)
        assert broker.metrics()[f"{CLEANER}DeadThreadCount"] == 0  # they notice it at their first log
        await fill(served)
        await until(lambda: broker.metrics()[f"{CLEANER}DeadThreadCount"] == 2)
        assert "offset map too small" in caplog.text
        found = status(broker)
        assert (found.passes, found.eligibility.state, found.eligibility.waits_for) == (0, "not held", "cleaner_off")
        await set_broker(
            broker,
            log_cleaner_threads=4,
            log_cleaner_dedupe_buffer_size=20_000_000,
            log_cleaner_io_buffer_load_factor=0.8,
            log_cleaner_io_buffer_size=300_000,
            message_max_bytes=40_000,
            log_cleaner_io_max_bytes_per_second=50_000_000,
            log_cleaner_backoff_ms=60,
        )
        await until(lambda: is_clean(broker))
        assert len(broker.services.cleaning.threads) == 4
        assert broker.metrics()[f"{CLEANER}DeadThreadCount"] == 0


@pytest.mark.scenario(90)
async def test_buffers_that_round_to_zero_still_work(tmp_path: Path) -> None:
    """Apache Kafka's thread loops without end with such buffers."""
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1", log_cleaner_io_buffer_size="1") as served:
        await fill(served)
        await until(lambda: is_clean(served.broker))


@pytest.mark.scenario(176)
async def test_a_topic_default_applies_at_once_and_disturbs_no_thread(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        broker = served.broker
        await served.ask(create_topic, "t", **SMALL)
        await set_broker(broker, log_cleaner_min_cleanable_ratio=1)
        for number in range(BATCHES):
            await served.ask(produce, "t", (f"k{number % 3}", "v" * 600))
        threads = broker.services.cleaning.threads
        assert status(broker).eligibility.waits_for == "below_min_ratio"
        await set_broker(broker, log_cleaner_min_cleanable_ratio=0)
        await until(lambda: is_clean(broker))
        assert broker.services.cleaning.threads is threads


async def test_more_than_two_gigabytes_a_thread_are_left_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The map allocates memory as keys arrive, so a large limit costs nothing.
    async with serving(
        tmp_path, OsFiles(), log_cleaner_backoff_ms="1", log_cleaner_dedupe_buffer_size=str(2**31)
    ) as served:
        await fill(served)
        await until(lambda: is_clean(served.broker))
    assert "a cleaner thread uses at most 2 GiB" in caplog.text


async def test_without_a_cleaner_compacted_logs_grow_for_ever(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), log_cleaner_enable="false") as served:
        broker = served.broker
        await fill(served, cleanup_policy="compact,delete", retention_ms=1)
        broker.clock.advance(10**9)
        await broker.background_jobs.retain()
        found = status(broker).eligibility
        assert (found.log_start_offset, found.waits_for) == (0, "cleaner_off")
        assert found.cleanable_bytes > 0
        metrics = broker.metrics()
        cleaner = {name: value for name, value in metrics.items() if "type=LogCleaner" in name or "cleaner-io" in name}
        assert len(cleaner) == 11 and set(cleaner.values()) == {0}
        assert metrics["kafka.log:type=Log,name=NumLogSegments,topic=t,partition=0"] == BATCHES
        await set_topic(broker, cleanup_policy="delete", retention_ms=1)
        await broker.background_jobs.retain()
        assert status(broker).eligibility.log_start_offset == BATCHES


# Damage


@asynccontextmanager
async def with_damage(tmp_path: Path, policy: str = "compact") -> AsyncIterator[Served]:
    """Run a broker that has found the third segment of topic t unreadable."""
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        await fill(served, cleanup_policy=policy, **NEVER)
        with (tmp_path / "t-0" / f"{2:020}.log").open("r+b") as file:
            file.seek(61)  # the first record's length
            file.write(b"\xff" * 8)
        await set_topic(served.broker, cleanup_policy=policy, **ALWAYS)
        await until(lambda: status(served.broker).eligibility.uncleanable is not None)
        yield served


def complaints(caplog: pytest.LogCaptureFixture) -> int:
    return sum("t-0 cannot be cleaned" in record.message for record in caplog.records)


@pytest.mark.scenario(82)
async def test_a_damaged_log_is_marked_and_other_logs_are_cleaned(tmp_path: Path) -> None:
    async with with_damage(tmp_path) as served:
        broker = served.broker
        await fill(served, "u")
        await until(lambda: is_clean(broker, "u"))
        found = status(broker)
        assert (found.passes, found.eligibility.waits_for) == (0, "uncleanable")
        assert (
            found.eligibility.uncleanable is not None and found.eligibility.uncleanable in found.eligibility.explanation
        )
        metrics = broker.metrics()
        assert metrics[f'{MANAGER}uncleanable-partitions-count,logDirectory="{tmp_path}"'] == 1
        assert metrics[f'{MANAGER}uncleanable-bytes,logDirectory="{tmp_path}"'] == found.eligibility.cleanable_bytes > 0


async def test_kafka_19895_another_configuration_causes_a_retry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_damage(tmp_path) as served:
        await set_topic(served.broker, **ALWAYS)  # the same configs as before
        await set_broker(served.broker, log_cleaner_backoff_ms=2)
        assert complaints(caplog) == 1 and status(served.broker).eligibility.uncleanable is not None
        await set_topic(served.broker, **ALWAYS, delete_retention_ms=5)
        await until(lambda: complaints(caplog) == 2)


async def test_kafka_19895_damage_below_the_log_start_does_not_matter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with with_damage(tmp_path, "compact,delete") as served:  # only with delete may records be deleted
        assert await served.ask(delete_records, "t", 3) == (0, 3)
        await until(lambda: is_clean(served.broker))
        assert complaints(caplog) == 1
        found = status(served.broker)
        assert (found.eligibility.log_start_offset, found.eligibility.uncleanable) == (3, None)
        assert served.broker.metrics()[f'{MANAGER}uncleanable-partitions-count,logDirectory="{tmp_path}"'] == 0


@pytest.mark.scenario(82)
async def test_a_damaged_log_that_is_deleted_is_forgotten(tmp_path: Path) -> None:
    async with with_damage(tmp_path) as served:
        topic = served.broker.services.topics.get("t")
        assert topic is not None
        await served.broker.services.topic_admin.delete(topic)
        assert served.broker.services.cleaning.manager.uncleanable == {}
        assert served.broker.metrics()[f'{MANAGER}uncleanable-partitions-count,logDirectory="{tmp_path}"'] == 0


async def test_other_tasks_run_while_a_log_is_chosen_among_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 20
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms=str(10**9)) as served:
        await served.ask(create_topic, "t", partitions=partitions, **SMALL)
        monkeypatch.setattr(cleaner_manager, "MEASURED_AT_ONCE", 1)
        monkeypatch.setattr(time_slices, "SLICE_S", -1.0)
        async with counting_passes() as passes:
            assert await served.broker.services.cleaning._choose() is None
        assert passes.count >= partitions // 2
