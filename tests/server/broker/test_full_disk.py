"""A full disk refuses what needs space, and nothing else; as soon as it has space again, the same requests succeed.

Apache Kafka takes the data directory offline until the next start.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.server.broker.broker import Broker
from ottla.server.coordination.shard import ShardState
from ottla.server.runtime.threads import Work, threads
from ottla.storage.cleaning.cleaner_checkpoints import data_dir_of
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.broker.admin import create, delete, delete_records, wanted
from support.broker.conversation import create_topic, fetch, list_offset, produce, records_of
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.troubled_files import TroubledFiles, full, nothing, trouble
from support.transactions.transactional_client import TransactionalClient

PATIENCE_S = 60
QUIET = {"log_initial_task_delay_ms": str(10**9), "log_cleaner_backoff_ms": str(10**9)}
SMALL = {"internal_segment_bytes": 100}


def log_of(broker: Broker, name: str) -> Log:
    return broker.services.logs.logs[TopicPartition(name, 0)]


def values(data: object) -> list[bytes | None]:
    return [value for _, _, value in records_of(data)]  # type: ignore[arg-type]


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE_S):
        while not holds():
            await trio.to_thread.run_sync(bool)


async def commit(served: Served, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),))
    answer = await served.ask(RawClient.ask, request, version=8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def test_on_a_full_disk_records_are_readable_and_later_writable_again(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        broker = served.broker
        await served.ask(create_topic, "t", cleanup_policy="compact", **SMALL)
        acknowledged = [b"0", b"1"]
        for value in ("0", "1"):
            await served.ask(produce, "t", (value, value))
        assert await commit(served, 1) == ErrorCode.NONE
        for again in range(2):
            files.trouble = full()
            for _ in range(2):
                refused = await served.ask(produce, "t", ("lost", "lost"))
                assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert values(await served.ask(fetch, "t", 0, max_bytes=1 << 20)) == acknowledged[:1]
                assert (await served.ask(list_offset, "t", -1))[1] == len(acknowledged)
                assert await commit(served, 2) != ErrorCode.NONE
                (row,) = await served.ask(create, wanted("u", 1))
                assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                (row,) = await served.ask(delete, "t")
                assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                for job in ("tick", "retain", "checkpoint_log_starts", "checkpoint_recovery_points"):
                    try:
                        await getattr(broker.background_jobs, job)()
                    except OSError:
                        assert job.startswith("checkpoint")
                (described,) = (await served.ask(RawClient.ask, DescribeLogDirsRequest(topics=None))).results
                assert described.error_code == ErrorCode.NONE
            files.trouble = nothing
            base = len(acknowledged)
            assert (await served.ask(produce, "t", ("k", f"again {again}"))).base_offset == base
            acknowledged.append(f"again {again}".encode())
            assert await commit(served, base) == ErrorCode.NONE
            (row,) = await served.ask(create, wanted(f"u{again}", 1))
            assert row.error_code == ErrorCode.NONE
        files.trouble = full()
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        found: list[bytes | None] = []
        while len(found) < len(acknowledged):
            found += values(await served.ask(fetch, "t", len(found)))
        assert found == acknowledged
        assert (await served.ask(produce, "t", ("k", "v"))).base_offset == len(acknowledged)


async def test_an_unrecorded_log_start_takes_effect_and_is_recorded_later(
    tmp_path: Path,
) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t", **SMALL)
        for value in ("0", "1"):
            await served.ask(produce, "t", (value, value))
        files.trouble = full()
        assert await served.ask(delete_records, "t", 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert await served.ask(list_offset, "t", -2) == (ErrorCode.NONE, 1)
        # The space that their deletion frees need not be there first.
        log = log_of(served.broker, "t")
        assert len(log.segments) == 2
        await served.broker.background_jobs.retain()
        assert [segment.base_offset for segment in log.segments] == [1]
        files.trouble = nothing
        assert await served.ask(delete_records, "t", 1) == (ErrorCode.NONE, 1)


async def test_records_are_deleted_after_the_disk_recorded_it(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, **QUIET) as served:
        await served.ask(create_topic, "t", **SMALL)
        await served.ask(produce, "t", ("k", "v"))
        for _ in range(2):
            files.trouble = full("log-start-offset-checkpoint")
            assert await served.ask(delete_records, "t", 1) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        files.trouble = nothing
        assert await served.ask(delete_records, "t", 1) == (ErrorCode.NONE, 1)
        assert "t 0 1\n" in (tmp_path / "log-start-offset-checkpoint").read_text()


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("place", ["everywhere", "of the records", "of the coordinator"])
async def test_a_transaction_ends_when_space_is_available(tmp_path: Path, place: str, version: int) -> None:
    """Either the decision was refused, or the decision was written and its marker was refused."""
    at = {"everywhere": "", "of the records": "/t-0/", "of the coordinator": "/__transaction_state"}[place]
    files = TroubledFiles()
    async with serving(tmp_path, files, transaction_state_log_num_partitions="1") as served:
        await served.ask(create_topic, "t")
        producer = await trio.to_thread.run_sync(partial(TransactionalClient, served.client, "id", version=version))
        await trio.to_thread.run_sync(producer.begin)
        await trio.to_thread.run_sync(producer.produce, "t", ("k", "v"))
        files.trouble = full(at)
        ended = partial(producer.try_to_end, commit=True)
        first = await trio.to_thread.run_sync(ended)
        assert (first == ErrorCode.NONE) == (place == "of the records")
        assert log_of(served.broker, "t").last_stable_offset == 0
        files.trouble = nothing
        if first != ErrorCode.NONE:
            assert await trio.to_thread.run_sync(ended) == ErrorCode.NONE
        await until(lambda: log_of(served.broker, "t").last_stable_offset == 2)


async def test_a_commit_whose_sync_lacks_memory_is_refused_until_memory_is_available(tmp_path: Path) -> None:
    files = TroubledFiles()
    options = {"offsets_topic_num_partitions": "1", "log_flush_interval_messages": "1"}
    async with serving(tmp_path, files, **options) as served:
        await served.ask(create_topic, "t")
        assert await commit(served, 7) == ErrorCode.NONE
        files.trouble = trouble(MemoryError(), "sync", at="/__consumer_offsets-0/")
        assert await commit(served, 8) == ErrorCode.NOT_COORDINATOR
        files.trouble = nothing
        served.broker.clock.advance(10_000)
        await until(lambda: served.broker.services.coordinators.groups.coordinator.shards[0].state is ShardState.ACTIVE)
        assert await commit(served, 9) == ErrorCode.NONE


async def test_a_pass_that_lacked_space_runs_when_space_is_available(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        broker = served.broker
        broker.clock.freeze()
        tried = 0

        def without_room(operation: str, path: str) -> None:
            nonlocal tried
            tried += operation == "create" and ".cleaned" in path
            full(".cleaned")(operation, path)

        files.trouble = without_room
        await served.ask(create_topic, "t", cleanup_policy="compact", min_cleanable_dirty_ratio=0, **SMALL)
        for number in range(4):
            await served.ask(produce, "t", ("k", f"v{number}"))
        cleaning, partition, clock = broker.services.cleaning, TopicPartition("t", 0), broker.clock
        clock.advance(1_000)

        async def look_at(elapsed_ms: int) -> None:
            clock.advance(elapsed_ms - clock.elapsed_ms())
            cleaning.looked_at_ms = None
            cleaning.look_again()
            await until(lambda: cleaning.looked_at_ms is not None)
            await until(lambda: not cleaning.manager.is_held(partition))

        for number, pause_ms in enumerate((15_000, 30_000, 60_000), start=1):
            await until(lambda: tried > 0)
            await until(lambda: not cleaning.manager.is_held(partition))
            explained, failed_at_ms = broker.cleaner_status()[partition].eligibility, clock.elapsed_ms()
            assert (explained.waits_for, "No space left" in explained.explanation) == ("put_off", True)
            assert explained.eligible_at_ms == clock.now_ms() + pause_ms
            await look_at(failed_at_ms + pause_ms - 1)
            await look_at(failed_at_ms + pause_ms - 1)  # the first round may have begun before
            assert tried == number
            await look_at(failed_at_ms + pause_ms)
            await until(lambda: cleaning.manager.retries.waiting(partition, clock.now_ms()) is not None)
        assert log_of(broker, "t").failure is None and values(await served.ask(fetch, "t", 0)) == [b"v0"]
        files.trouble = nothing
        await look_at(clock.elapsed_ms() + 600_000)
        await until(lambda: broker.cleaner_status()[partition].passes > 0)
        assert not cleaning.manager.uncleanable


async def test_a_coordinator_that_could_not_read_its_partition_retries(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with serving(tmp_path, files, offsets_topic_num_partitions="1") as served:
        await served.ask(create_topic, "t")
        assert await commit(served, 7) == ErrorCode.NONE
        service = served.broker.services.coordinators.groups
        files.trouble = trouble(OSError(errno.EMFILE, "Too many open files"), "read", at="/__consumer_offsets-0/")
        service.leadership_changed(0)
        for _ in range(2):
            assert service.coordinator.shards[0].state is ShardState.FAILED
            assert await commit(served, 8) == ErrorCode.NOT_COORDINATOR
            served.broker.clock.advance(10_000)
            await trio.testing.wait_all_tasks_blocked()
        files.trouble = nothing
        served.broker.clock.advance(10_000)
        await until(lambda: service.coordinator.shards[0].state is ShardState.ACTIVE)
        assert await commit(served, 8) == ErrorCode.NONE


async def test_a_disk_that_fails_before_storing_the_log_start_refuses_the_deletion(tmp_path: Path) -> None:
    """Checkpoints skip a failed directory, and a request that waits for one must not count that as success."""
    async with serving(tmp_path, OsFiles(), **QUIET) as served:
        broker = served.broker
        await served.ask(create_topic, "t")
        await served.ask(produce, "t", ("k", "v"))
        (data_dir,) = {data_dir_of(log) for log in broker.services.logs.logs.values()}
        checkpoints = threads(Work.CHECKPOINT, data_dir)
        codes: list[int] = []

        async def ask() -> None:
            code, _ = await served.ask(delete_records, "t", 1)
            codes.append(code)

        async with trio.open_nursery() as nursery:
            busy = [object() for _ in range(int(checkpoints.total_tokens))]
            for each in busy:
                checkpoints.acquire_on_behalf_of_nowait(each)
            nursery.start_soon(ask)
            await until(lambda: checkpoints.statistics().tasks_waiting == 1)
            log_of(broker, "t").fail(OSError(errno.EIO, "some other file"))
            for each in busy:
                checkpoints.release_on_behalf_of(each)
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR]
