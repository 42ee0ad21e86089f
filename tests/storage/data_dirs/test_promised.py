"""Promised logs: open at once, on disk when a thread makes them or an append comes first."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.data_dirs.making import NewLogs
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk.files import WouldWaitError
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.logs.make_log import delete_all, delete_old_segments

A, B, C = (TopicPartition("t", index) for index in range(3))
ID = bytes(range(16))


def opened(files: CrashFiles, *dirs: str) -> LogManager:
    manager = LogManager(files, dirs or ("/d",))
    manager.load(0, 0, config_for=lambda _: LogConfig())
    return manager


def promise(manager: LogManager, *partitions: TopicPartition) -> list[Log]:
    return manager.promise([NewLogs(partitions or [A], ID, LogConfig())], now_ms=0, elapsed_ms=0)


def append(log: Log, *, at_once: bool = False) -> int:
    return log.append(memoryview(bytearray(batch(("k", "v")))), now_ms=0, at_once=at_once).base_offset


def directories(files: CrashFiles, data_dir: str = "/d") -> list[str]:
    return [name for name in files.list(data_dir) if name.startswith("t-")]


def test_a_promise_writes_nothing_and_looks_like_an_empty_log() -> None:
    files = CrashFiles()
    manager = opened(files)
    before = files.snapshot()
    (log,) = promise(manager)
    assert files.snapshot() == before and directories(files) == []
    assert manager.logs[A] is log and manager.unmade("/d") == [log] and not log.is_made
    end = log.locate(0)
    assert not log.fetch(0, max_bytes=1_000, end=end, at_once=True).records.size_bytes
    assert to_the_end(log.search_timestamp(0)) is None and to_the_end(log.search_max_timestamp()) is None
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (0, 0, 0)
    assert delete_old_segments(log, 10**15, 0) == 0
    log.flush(0)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_starts()
    assert log.roll(0) is log.segments.active
    assert directories(files) == []


def test_the_first_append_creates_the_log_while_concurrent_appends_wait() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = promise(manager)
    with pytest.raises(WouldWaitError) as cold:
        append(log, at_once=True)
    assert directories(files) == []
    cold.value.bring()
    assert log.is_made and manager.unmade("/d") == []
    assert [append(log, at_once=True), append(log)] == [0, 1]
    assert sorted(files.list("/d/t-0")) == ["00000000000000000000.log", "partition.metadata"]


@pytest.mark.parametrize("first", [Log.make, append])
def test_every_operation_that_needs_the_directory_creates_it(first: object) -> None:
    files = CrashFiles()
    (log,) = promise(opened(files))
    assert callable(first)
    first(log)
    assert log.is_made and directories(files) == ["t-0"]


def test_data_flushed_since_the_first_append_survives_any_power_loss() -> None:
    files = CrashFiles()
    (log,) = promise(opened(files))
    append(log)
    log.flush(0)
    disks = 0
    for ordered in (True, False):
        for disk in files.after_crash(ordered=ordered):
            disks += 1
            again = opened(disk).logs[A]
            assert (again.log_end_offset, again.topic_id) == (1, ID)
    assert disks


def test_each_log_is_promised_in_the_directory_with_the_fewest() -> None:
    files = CrashFiles()
    manager = opened(files, "/d", "/e")
    assert [log.data_dir for log in promise(manager, A, B, C)] == ["/d", "/e", "/d"]
    assert [log.topic_partition for log in manager.unmade("/e")] == [B]


def refusals() -> Iterator[tuple[CrashFiles, LogManager, Log, int]]:
    """Yield a promised log of whose creation one operation after the other is refused; the last time none is."""
    for number in count():
        files = CrashFiles()
        manager = opened(files)
        (log,) = promise(manager)
        seen = 0

        def refuse(operation: str, path: str, _: int, number: int = number) -> None:
            nonlocal seen
            seen += 1
            if seen == number + 1:
                raise OSError(errno.ENOSPC, "No space left on device", path)

        files.refuse = refuse
        yield files, manager, log, number
        if seen <= number:
            return


def test_a_creation_refused_at_any_step_is_completed_by_the_next() -> None:
    tried = 0
    for files, manager, log, number in refusals():
        try:
            append(log)
        except KafkaError as error:
            assert error.code is ErrorCode.KAFKA_STORAGE_ERROR and log.log_end_offset == 0
            tried += 1
        files.refuse = None
        if manager.failures:
            continue  # a sync was refused, and the directory is no longer used
        was = log.log_end_offset
        assert append(log) == was
        manager.close(0)
        again = opened(files.copy())
        assert again.was_clean and again.logs[A].log_end_offset == was + 1, f"operation {number}"
    assert tried >= 4


def test_a_deletion_removes_a_promise_even_if_half_created() -> None:
    for files, manager, log, _ in refusals():
        with suppress(KafkaError):
            log.make()
        files.refuse = None
        delete_all(manager, [A], 0)
        for remove in manager.due_deletions("/d", 10**9):
            remove()
        assert directories(files) == [] and manager.unmade("/d") == []
        with pytest.raises(KafkaError) as told:
            append(log)
        assert told.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert directories(files) == []


def test_a_stop_creates_promised_logs() -> None:
    files = CrashFiles()
    manager = opened(files)
    promise(manager, A, B)
    manager.close(0)
    again = opened(files)
    assert again.was_clean and set(again.logs) == {A, B} and all(log.topic_id == ID for log in again.logs.values())


def test_a_stop_without_space_for_an_empty_log_is_clean() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = promise(manager)

    def refuse(operation: str, path: str, _: int) -> None:
        if "t-0" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    files.refuse = refuse
    manager.close(0)
    files.refuse = None
    assert not log.is_made
    assert opened(files).was_clean


def test_an_existing_directory_of_the_same_name_is_set_aside() -> None:
    files = CrashFiles()
    manager = opened(files)
    files.make_dir("/d/t-0")
    files.open("/d/t-0/00000000000000000000.log", create=True).append(b"old")
    (log,) = promise(manager)
    append(log)
    assert log.log_end_offset == 1
    assert [name for name in directories(files) if name.endswith("-stray")]


class FewDescriptors(CrashFiles):
    def check_descriptors(self, count: int = 1) -> None:
        if count > 3:
            raise OSError(errno.EMFILE, "Too many open files")


def test_promises_are_limited_by_available_descriptors() -> None:
    manager = opened(FewDescriptors())
    (first, _) = promise(manager, A, B)
    more = [TopicPartition("u", index) for index in range(2)]
    with pytest.raises(OSError, match="Too many open files"):
        promise(manager, *more)
    assert set(manager.logs) == {A, B}
    first.make()  # it is no longer only promised
    assert len(promise(manager, *more)) == 2
