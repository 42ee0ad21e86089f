"""Errors of one partition: they affect only this partition. The others are reached by every job, requests that wait for a
partition continue, and the broker stops.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle, product
from pathlib import Path

import pytest
import trio

from ottla.protocol import compression
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.broker.broker import Broker
from ottla.server.cleaning.on_demand import clean_now
from ottla.server.partitions.topics import Topic
from ottla.server.runtime.errors import ControlError
from ottla.storage.cleaning.retries import PAUSE_MS_MIN
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.broker.admin import set_topic_configs
from support.broker.background_jobs import have_on_disk
from support.broker.conversation import create_topic, produce
from support.broker.served import Served, serving
from support.disk.troubled_files import TroubledFiles, nothing, trouble
from support.sizes import FULL

TOPICS = ("a", "bad", "z")
"""Topics in the order in which a job reaches them."""

EXCEPTIONS: dict[str, Callable[[], Exception]] = {
    "no room": lambda: OSError(errno.ENOSPC, "No space left on device"),
    "no memory": MemoryError,
    "an answer": lambda: KafkaError(ErrorCode.CORRUPT_MESSAGE, "unreadable"),
    "a mistake": lambda: RuntimeError("a mistake of ours"),
}
EVERY_EXCEPTION = pytest.mark.parametrize("error", EXCEPTIONS.values(), ids=EXCEPTIONS.keys())


def dealt(places: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of exceptions and places: all in full runs; in a short run each place with one exception, in turn."""
    pairs = product(EXCEPTIONS, places)
    return list(pairs) if FULL else list(zip(cycle(EXCEPTIONS), places))


PATIENCE_S = 60
RECORDS = 6
QUIET = {"log_initial_task_delay_ms": str(10**9), "log_cleaner_backoff_ms": str(10**9)}
"""Options under which jobs run only when the test starts them."""


async def topics(served: Served, **configs: object) -> None:
    """Create the three topics, with two old records per segment."""
    for name in TOPICS:
        await served.ask(create_topic, name, internal_segment_bytes=200, file_delete_delay_ms=0, **configs)
        for number in range(RECORDS):
            await served.ask(produce, name, ("k", f"v{number}"), timestamp=1_000)


def topic(broker: Broker, name: str) -> Topic:
    found = broker.services.topics.get(name)
    assert found is not None
    return found


def log_of(broker: Broker, name: str) -> Log:
    return broker.services.logs.logs[TopicPartition(name, 0)]


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not holds():
            await trio.to_thread.run_sync(bool)


async def check_that_all_are_free(broker: Broker, *deleted: str) -> None:
    """Check that no task still holds a partition, and that each can be deleted."""
    manager = broker.services.cleaning.manager
    with trio.fail_after(PATIENCE_S):
        for name in deleted:
            held = partial(manager.is_held, TopicPartition(name, 0))
            await until(lambda: not held())  # noqa: B023
            await broker.services.topic_admin.delete(topic(broker, name))
            assert not broker.services.cluster.change_lock.locked()


@EVERY_EXCEPTION
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
async def test_retention_continues_with_the_next_log(
    tmp_path: Path, error: Callable[[], Exception], policy: str
) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await topics(served, cleanup_policy=policy, retention_ms=1)
        files.trouble = trouble(error(), "rename", at="/bad-0/")
        for _ in range(2):
            await broker.background_jobs.retain()
            await broker.services.cleaning.delete_from_compacted_logs()
        assert [len(log_of(broker, name).segments) > 1 for name in TOPICS] == [False, True, False]
        assert [log_of(broker, name).failure for name in TOPICS] == [None] * 3
        files.trouble = nothing
        await broker.background_jobs.retain()
        await broker.services.cleaning.delete_from_compacted_logs()
        assert len(log_of(broker, "bad").segments) == 1
        await check_that_all_are_free(broker, "z", "bad")


@EVERY_EXCEPTION
async def test_a_partly_deleted_partition_is_held_by_no_job(tmp_path: Path, error: Callable[[], Exception]) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await topics(served)
        files.trouble = trouble(error(), "rename", at="/bad-0")
        await broker.services.topic_admin.delete(topic(broker, "bad"))
        files.trouble = nothing
        await served.ask(create_topic, "bad", internal_segment_bytes=200)
        await served.ask(produce, "bad", ("k", "v"))
        await check_that_all_are_free(broker, *TOPICS)


REFUSED_IN_A_PASS = {
    "reading": ("read", ".log"),
    "making the new segment": ("create", ".log.cleaned"),
    "writing to it": ("append", ".log.cleaned"),
    "making its index": ("create", ".index.cleaned"),
    "syncing it": ("sync", ".log.cleaned"),
    "the first rename": ("rename", ".log.cleaned"),
}


@pytest.mark.parametrize(("error", "place"), dealt(REFUSED_IN_A_PASS))
async def test_a_failing_pass_does_not_stop_cleaning_of_other_logs(tmp_path: Path, error: str, place: str) -> None:
    files = TroubledFiles()
    operation, file = REFUSED_IN_A_PASS[place]
    raised, met = EXCEPTIONS[error](), list[str]()

    def in_the_pass(at_operation: str, path: str) -> None:
        if at_operation == operation and "/bad-0/" in path and path.endswith(file):
            met.append(path)
            raise raised

    async with serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        broker = served.broker
        never = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "1",
            "internal.segment.bytes": "200",
            "index.interval.bytes": "0",
        }
        await topics(served, cleanup_policy="compact", min_cleanable_dirty_ratio=1, index_interval_bytes=0)
        files.trouble = in_the_pass
        for name in reversed(TOPICS):
            await set_topic_configs(broker, name, {**never, "min.cleanable.dirty.ratio": "0"})
        others = [TopicPartition(name, 0) for name in ("a", "z")]
        await until(lambda: bool(met) and all(broker.cleaner_status()[each].passes for each in others))
        assert [log_of(broker, name).failure for name in TOPICS] == [None] * 3
        assert broker.cleaner_status()[TopicPartition("bad", 0)].passes == 0
        files.trouble = nothing
        if isinstance(raised, OSError | MemoryError):  # the missing resource is back, and the log is not to blame
            bad, retries = TopicPartition("bad", 0), broker.services.cleaning.manager.retries
            await until(lambda: retries.waiting(bad, broker.clock.now_ms()) is not None)
            broker.clock.advance(PAUSE_MS_MIN)
            await until(lambda: broker.cleaner_status()[TopicPartition("bad", 0)].passes > 0)
        else:
            await until(lambda: TopicPartition("bad", 0) in broker.services.cleaning.manager.uncleanable)
        await until(lambda: broker.services.cleaning.manager.state_name(TopicPartition("bad", 0)) == "not held")
        await check_that_all_are_free(broker, "z", "bad")


async def test_a_log_whose_codec_cannot_be_loaded_is_not_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start the cleaner is often the first that needs it."""
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        broker, partition = served.broker, TopicPartition("bad", 0)
        await served.ask(create_topic, "bad", internal_segment_bytes=200, cleanup_policy="compact")
        for number in range(RECORDS):
            await served.ask(produce, "bad", ("k", f"v{number}"), ("other", "v"), timestamp=1_000, codec=Codec.LZ4)
        with monkeypatch.context() as short:
            short.delitem(compression._LOADED, Codec.LZ4)
            short.setitem(sys.modules, "ottla.protocol.codec_lz4", None)
            with pytest.raises(ControlError, match="cannot load the codec lz4"):
                await clean_now(broker.services.cleaning, log_of(broker, "bad"), is_forced=True)
        assert not broker.services.cleaning.manager.uncleanable
        assert log_of(broker, "bad").failure is None
        await clean_now(broker.services.cleaning, log_of(broker, "bad"), is_forced=True)
        assert broker.cleaner_status()[partition].passes == 1


@EVERY_EXCEPTION
async def test_a_failing_removal_is_retried_later_and_delays_no_other_removal(
    tmp_path: Path, error: Callable[[], Exception]
) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await topics(served, cleanup_policy="delete", retention_ms=1)
        files.trouble = trouble(error(), "remove", at="/bad-0")
        await broker.background_jobs.retain()
        for name in TOPICS:
            await broker.services.topic_admin.delete(topic(broker, name))
        broker.clock.advance(1_000)
        for _ in range(3):
            await broker.background_jobs.tick()
        assert [path.name[:5] for path in tmp_path.glob("*-delete")] == ["bad-0"]
        files.trouble = nothing
        await broker.background_jobs.tick()
        assert len(list(tmp_path.glob("*-delete"))) == 1  # not every second
        broker.clock.advance(60_000)
        await broker.background_jobs.tick()
        assert not list(tmp_path.glob("*-delete"))


@EVERY_EXCEPTION
async def test_a_failing_flush_delays_no_other_log(tmp_path: Path, error: Callable[[], Exception]) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await topics(served)
        files.trouble = trouble(error(), "sync", "open", at="/bad-0/")
        for name in TOPICS:
            await set_topic_configs(broker, name, {"flush.ms": "1", "internal.segment.bytes": "200"})
        broker.clock.advance(1_000)
        await broker.background_jobs.tick()
        # On a slow machine housekeeping's own tick comes first, and syncs "z" when this one has ended.
        await until(lambda: log_of(broker, "z").recovery_point == RECORDS)
        assert [log_of(broker, name).recovery_point == RECORDS for name in TOPICS] == [True, False, True]


@pytest.mark.parametrize(("error", "operation"), dealt(["create", "append", "sync", "list"]))
async def test_a_log_that_cannot_be_closed_costs_only_the_clean_stop_mark(
    tmp_path: Path, error: str, operation: str
) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await topics(served)
        files.trouble = trouble(EXCEPTIONS[error](), operation, at="/bad-0")
    if operation != "list":
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    for name in ("a-0", "z-0"):
        assert (tmp_path / name / f"{RECORDS:020}.snapshot").exists(), "closed all the same"
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        assert [log_of(served.broker, name).log_end_offset for name in TOPICS] == [RECORDS] * 3


async def test_partitions_that_cannot_be_renamed_do_not_block_other_deletions(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await served.ask(create_topic, "t", partitions=3)
        have_on_disk(broker)
        files.trouble = trouble(OSError(errno.EBUSY, "busy"), "rename", at="/t-1")
        await broker.services.topic_admin.delete(topic(broker, "t"))
        assert broker.services.logs.logs == {}
        assert sorted(path.name[:3] for path in tmp_path.glob("*-delete")) == ["t-0", "t-2"]
        assert not broker.services.cleaning.manager.is_held(TopicPartition("t", 1))


async def test_a_cancelled_wait_for_a_partition_does_not_hold_it(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        broker, partition = served.broker, TopicPartition("a", 0)
        await topics(served, cleanup_policy="compact")
        manager = broker.services.cleaning.manager
        manager.begin(partition)  # a pass is running
        with trio.move_on_after(0.01) as gave_up:
            await broker.services.cleaning.pause(partition)
        assert gave_up.cancelled_caught
        manager.leave(partition)
        assert manager.state_name(partition) == "not held"


@pytest.mark.parametrize("size_bytes", range(4, 13))
async def test_an_index_smaller_than_one_entry_has_room_for_one(tmp_path: Path, size_bytes: int) -> None:
    """Apache Kafka accepts values from 4 bytes on, and then cannot create the index."""
    config = {"segment_index_bytes": size_bytes, "index_interval_bytes": 0}
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        broker = served.broker
        await served.ask(create_topic, "t", cleanup_policy="compact,delete", retention_ms=1, **config)
        for number in range(3):
            assert (await served.ask(produce, "t", ("k", f"v{number}"), timestamp=1_000)).base_offset == number
        assert len(log_of(broker, "t").segments) == 3
        await broker.services.cleaning.delete_from_compacted_logs()
        assert log_of(broker, "t").log_start_offset == 3
        assert (await served.ask(produce, "t", ("k", "v"), timestamp=1_000)).base_offset == 3
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        assert (await served.ask(produce, "t", ("k", "v"), timestamp=1_000)).base_offset == 4


async def test_an_abandoned_lease_request_holds_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        broker, partition = served.broker, TopicPartition("a", 0)
        await topics(served, cleanup_policy="compact")
        leases = broker.leases
        broker.services.cleaning.manager.begin(partition)  # a pass is running
        with trio.move_on_after(0.01):
            await leases.pause(partition, 60_000)
        broker.services.cleaning.manager.leave(partition)
        assert (leases.get(partition), broker.services.cleaning.manager.state_name(partition)) == (None, "not held")
        assert (await leases.pause(partition, 60_000)) is leases.get(partition)
