"""The log that is cleaned next, how far, and how often: scenarios through the manager and several passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.cleaner.choosing import filthiest
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT
from support.logs.make_log import (
    DAY_MS,
    Producer,
    all_batches,
    append,
    append_marker,
    clean,
    contents,
    delete_old_segments,
    make_log,
    reopen,
)

T = TopicPartition("t", 0)


def broker_of(*logs: Log) -> CleanerManager:
    return CleanerManager(logs[0].files, {log.topic_partition: log for log in logs})


def checkpoint(files: Files, data_dir: str = "/data") -> OffsetCheckpoint:
    return OffsetCheckpoint(files, f"{data_dir}/cleaner-offset-checkpoint")


def cleaned_whenever_due(log: Log, manager: CleanerManager, now_ms: int) -> list[int]:
    """Run rounds of the cleaner until it finds nothing to do; return the end offsets of its passes."""
    ends = []
    while (chosen := filthiest(manager, now_ms)) is not None:
        end, _ = clean(chosen.log, chosen.first_dirty_offset, now_ms=now_ms)
        manager.save_end_offset(chosen, end)
        manager.done_cleaning(chosen)
        ends.append(end)
    return ends


def filled(count: int, *, every: int = 5, **config: Any) -> Log:
    """Return a log with `count` records of one key, rolled after every `every`."""
    log = make_log(**config)
    for number in range(count):
        append(log, ("k", str(number)), roll=number % every == every - 1)
    return log


# Choosing


@pytest.mark.scenario(52)
def test_the_longest_of_20_clean_logs_is_chosen() -> None:
    files = CrashFiles()
    names = [TopicPartition(name, 0) for name in ("to-20", "to-25", "to-30")]
    logs = []
    for tp, count in zip(names, (20, 25, 30), strict=True):
        log = make_log(files, tp=tp, min_cleanable_dirty_ratio=0.05)
        for number in range(count):
            append(log, ("k", str(number)), roll=number % 5 == 4)
        logs.append(log)
    checkpoint(files).write({tp: 20 for tp in names})
    manager = broker_of(*logs)
    chosen = [filthiest(manager, 0) for _ in names]
    assert [
        each and (each.log.topic_partition.topic, each.first_dirty_offset, each.upper_offset) for each in chosen
    ] == [
        ("to-30", 20, 30),
        ("to-25", 20, 25),
        None,
    ]


@pytest.mark.scenario(56, 57, 58, 59)
@pytest.mark.parametrize(
    ("saved", "log_start", "first_dirty"),
    [
        pytest.param(200, 0, 0, id="a checkpoint beyond the end"),
        pytest.param(0, 10, 10, id="a checkpoint below the log start"),
        pytest.param(None, 17, None, id="the log start inside the active segment"),
        pytest.param(17, 0, None, id="a checkpoint inside the active segment"),
    ],
)
def test_a_log_is_chosen_from_its_valid_checkpoint_or_start(
    saved: int | None, log_start: int, first_dirty: int | None
) -> None:
    log = filled(18, min_cleanable_dirty_ratio=0.05)
    log.advance_log_start(log_start)
    if saved is not None:
        checkpoint(log.files).write({T: saved})
    chosen = filthiest(broker_of(log), 0)
    assert (chosen and (chosen.first_dirty_offset, chosen.upper_offset)) == (
        None if first_dirty is None else (first_dirty, 15)
    )


@pytest.mark.scenario(67)
def test_a_failed_directory_does_not_affect_other_directories() -> None:
    files = CrashFiles()
    bad, good = (
        make_log(files, tp=TopicPartition(name, 0), data_dir=f"/{name}", min_cleanable_dirty_ratio=0.1)
        for name in ("bad", "good")
    )
    for log in (bad, good):
        for number in range(4):
            append(log, ("k", str(number)), roll=True)
        checkpoint(files, f"/{log.topic_partition.topic}").write({log.topic_partition: 2})
    manager = broker_of(bad, good)
    bad.fail(OSError("the disk is gone"))
    assert cleaned_whenever_due(good, manager, 5_000) == [4]
    assert checkpoint(files, "/good").read() == {good.topic_partition: 4}
    assert checkpoint(files, "/bad").read() == {bad.topic_partition: 2}


# Pausing


@pytest.mark.scenario(79)
def test_a_deletion_with_a_waiting_caller_ends_in_a_pause() -> None:
    log = filled(10)
    manager, told = broker_of(log), []
    assert manager.begin_retention(log, compacted=True)
    assert not manager.abort_and_pause(T, lambda: told.append("paused"))
    manager.done_deleting([T])
    assert (told, filthiest(manager, 0)) == (["paused"], None)
    manager.resume([T])
    assert manager.begin_retention(log, compacted=True)
    manager.done_deleting([T])
    assert cleaned_whenever_due(log, manager, 0) == [10]


def test_kafka_3123_a_partition_paused_twice_is_cleaned_after_both_resumes() -> None:
    log = filled(10)
    manager = broker_of(log)
    assert manager.abort_and_pause(T, lambda: None)
    assert manager.abort_and_pause(T, lambda: None)
    assert filthiest(manager, 0) is None
    manager.resume([T])
    assert filthiest(manager, 0) is None
    manager.resume([T])
    assert cleaned_whenever_due(log, manager, 0) == [10]


# Several passes


def test_kafka_4545_an_old_or_renewed_file_does_not_move_a_tombstones_horizon() -> None:
    files = CrashFiles()
    log = make_log(files, delete_retention_ms=10 * DAY_MS)
    append(log, ("a", "1"), ("a", None), roll=True)
    end = 0
    for day in range(1, 12):
        for segment in log.segments:
            # First the oldest possible time, then the newest.
            files.set_mtime_ms(segment.file_paths()[0], 0 if day % 2 else 99 * DAY_MS)
        append(log, ("b", f"{day}"), roll=True)
        end, _ = clean(log, end, now_ms=day * DAY_MS)
        has_tombstone = (1, b"a", None) in contents(log)
        assert has_tombstone == (day < 11), "the first pass was on day 1"


def test_kafka_7385_a_pass_may_leave_only_empty_batches() -> None:
    log = make_log()
    one, two = Producer(log, 1), Producer(log, 2)
    one.write("a")
    two.write("a")
    log.roll(1_000)
    append(log, ("a", "newer"), roll=True)
    end, _ = clean(log)
    append(log, ("a", "newest"), roll=True)
    log.config = replace(log.config, segment_bytes=1)
    clean(log, end)
    found = all_batches(log)
    assert [(each.last_offset, each.record_count) for each in found] == [(0, 0), (1, 0), (3, 1)]
    assert log.segments.first.size_bytes == 2 * 61
    assert reopen(log, clean=False).log_end_offset == 4


def test_kafka_7400_segments_below_the_log_start_leave_a_purely_compacted_log() -> None:
    log = filled(20)
    log.advance_log_start(12)
    manager = broker_of(log)
    assert manager.begin_retention(log, compacted=True)
    assert delete_old_segments(log, 0, 0) == 2
    manager.done_deleting([T])
    assert [segment.base_offset for segment in log.segments] == [10, 15, 20]


@pytest.mark.parametrize("codec", [0, 4])
def test_kafka_8351_a_transaction_may_span_several_groups(codec: int) -> None:
    """The first record is in one group, the marker in the last: the state of the pass continues from group to group."""
    log = make_log()
    doomed, fine = (Producer(log, number, transactional=True) for number in (1, 2))
    for number in range(6):
        doomed.write((f"d{number}", "v"), ("shared", f"aborted {number}"))
        fine.write((f"f{number}", "v"), ("shared", f"committed {number}"))
        log.roll(1_000)
    aborted_at = doomed.abort()
    fine.commit()
    log.roll(1_000)
    log.config = replace(log.config, segment_bytes=2 * log.segments.first.size_bytes)
    end = 0
    for day in range(1, 5):
        end, stats = clean(log, end, now_ms=10 * day * DAY_MS)
        assert [key for _, key, _ in contents(log)] == [b"f0", b"f1", b"f2", b"f3", b"f4", b"f5", b"shared"]
        assert contents(log)[-1][2] == b"committed 5"
        assert [txn.last_offset for txn in log.aborted_transactions(0, log.log_end_offset)] == [aborted_at]
    assert stats.segments_after > 1


def test_a_marker_in_another_group_is_distinguished_from_one_without_data() -> None:
    """The data of its transaction was removed in the first group of the same pass, so the marker stays for this pass."""
    log = make_log()
    Producer(log, 1, transactional=True).write("a")
    log.roll(1_000)
    append_marker(log, ABORT, 1, producer_epoch=1)
    log.roll(1_000)
    log.config = replace(log.config, segment_bytes=1)
    clean(log, now_ms=DAY_MS)
    (left,) = all_batches(log)
    assert (left.is_control, left.record_count, left.delete_horizon_ms) == (True, 1, None)
