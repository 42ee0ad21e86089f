"""Measures of a log's dirtiness."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.storage.cleaning.dirtiness import find_bound_in_pieces, first_dirty_offset, measure
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, batch
from support.logs.make_log import Producer, append, append_marker, log_with_holes, make_log
from support.noted import each_case

HOUR_MS = 3_600_000


def segments_of_two(count: int, *, timestamp: int = 1_000, log: Log | None = None, **config: Any) -> Log:
    """Return a log with `count` sealed segments of two records each, and an empty active one."""
    log = make_log(**config) if log is None else log
    for number in range(2 * count):
        append(log, ("k", str(number)), timestamp=timestamp, roll=number % 2 == 1)
    return log


def bound_of(log: Log, dirty_from: int, now_ms: int) -> int:
    """Return the first offset that may not be cleaned."""
    return to_the_end(find_bound_in_pieces(log, dirty_from, now_ms)).offset


# First dirty offset


@pytest.mark.scenario(56, 57, 76)
@each_case(
    "log_start, checkpoint, want",
    [
        (0, None, (0, False)),
        (10, None, (10, False)),
        (0, 15, (15, False)),
        (10, 15, (15, False)),
        (10, 10, (10, False)),
        (0, 20, (20, False)),
        (20, 15, (20, True)),
        (10, 0, (10, True)),
        (0, 21, (0, True)),
        (10, 200, (10, True)),
    ],
)
def test_a_plausible_checkpoint_is_used(log_start: int, checkpoint: int | None, want: tuple[int, bool]) -> None:
    log = segments_of_two(10)
    log.advance_log_start(log_start)
    assert first_dirty_offset(log, checkpoint) == want


# First uncleanable offset


@pytest.mark.scenario(73)
def test_the_active_segment_bounds_the_cleanable_range() -> None:
    log = segments_of_two(3)
    append(log, ("k", "v"))
    assert bound_of(log, 0, 0) == 6


@pytest.mark.scenario(72, 77)
def test_an_open_transaction_bounds_the_cleanable_range() -> None:
    log = segments_of_two(2, timestamp=1_000, min_compaction_lag_ms=HOUR_MS)
    producer = Producer(log, 1, transactional=True)
    producer.write("a")
    log.roll(1_000)
    append(log, ("k", "v"), roll=True)
    much_later = 10 * HOUR_MS
    assert bound_of(log, 0, much_later) == 4
    assert measure(log, 4, much_later).cleanable_bytes == 0
    append_marker(log, ABORT, 1, timestamp=much_later - 1)
    log.roll(much_later)
    assert bound_of(log, 0, much_later) == 6, "the marker is young"
    assert bound_of(log, 0, much_later + HOUR_MS) == 7


@pytest.mark.scenario(74)
def test_young_segments_and_all_later_ones_are_left_alone() -> None:
    log = segments_of_two(4, timestamp=1_000, min_compaction_lag_ms=HOUR_MS)
    segments_of_two(4, timestamp=1_000 + HOUR_MS, log=log)
    segments_of_two(1, timestamp=1, log=log)
    now_ms = 1_000 + HOUR_MS
    assert bound_of(log, 0, now_ms) == 8
    assert bound_of(log, 12, now_ms) == 12
    assert bound_of(log, 0, now_ms - 1) == 0


@pytest.mark.scenario(75)
def test_without_young_segments_the_lag_bounds_nothing() -> None:
    log = segments_of_two(4, timestamp=1_000, min_compaction_lag_ms=HOUR_MS)
    assert bound_of(log, 0, 1_000 + HOUR_MS) == 8


def test_a_segment_without_timestamps_is_as_young_as_its_file() -> None:
    files = CrashFiles()
    files.now_ms = 5_000
    log = make_log(files, min_compaction_lag_ms=1_000, message_timestamp_before_max_ms=2**62)
    append(log, ("k", "v"), timestamp=-1, now_ms=0, roll=True)
    assert bound_of(log, 0, 5_999) == 0
    assert bound_of(log, 0, 6_000) == 1


# Bytes and ratio


@pytest.mark.scenario(30)
def test_clean_and_cleanable_bytes_exclude_the_active_segment() -> None:
    log = segments_of_two(3)
    append(log, ("k", "v"))
    sizes = [segment.size_bytes for segment in log.segments]
    whole = measure(log, 2, 0)
    assert (whole.clean_bytes, whole.cleanable_bytes) == (sizes[0], sizes[1] + sizes[2])
    assert whole.total_bytes == log.size_bytes - log.segments.active.size_bytes


@pytest.mark.scenario(31)
def test_young_segments_are_not_counted() -> None:
    log = make_log(min_compaction_lag_ms=500)
    for number in range(6):
        append(log, ("k", str(number)), timestamp=900 if number < 4 else 1_000, roll=number % 2 == 1)
    sizes = [segment.size_bytes for segment in log.segments]
    found = measure(log, 2, 1_400)
    assert (found.upper_offset, found.clean_bytes, found.cleanable_bytes) == (4, sizes[0], sizes[1])
    assert found.dirty_ratio == pytest.approx(sizes[1] / (sizes[0] + sizes[1]), abs=1e-6)
    assert [segment.base_offset for segment in found.segments] == [0, 2]


def test_a_partly_clean_segment_counts_on_both_sides() -> None:
    log = segments_of_two(3)
    size_bytes = log.segments.first.size_bytes
    found = measure(log, 3, 0)
    assert (found.clean_bytes, found.cleanable_bytes) == (2 * size_bytes, 2 * size_bytes)


@pytest.mark.scenario(29)
def test_a_bound_inside_a_segment_is_rounded_down_to_its_base() -> None:
    log = segments_of_two(2)
    append(log, ("k", "v"))
    Producer(log, 1, transactional=True).write("a")
    log.roll(1_000)
    assert bound_of(log, 0, 1_000) == 5
    assert measure(log, 0, 1_000).upper_offset == 4


@pytest.mark.scenario(58, 59)
@pytest.mark.parametrize("first_dirty", [4, 5, 6])
def test_nothing_is_cleanable_if_the_clean_part_reaches_the_active_segment(first_dirty: int) -> None:
    log = segments_of_two(2)
    append(log, ("k", "v"))
    append(log, ("k", "v"))
    found = measure(log, first_dirty, 0)
    assert (found.cleanable_bytes, found.is_due) == (0, False)


def test_an_empty_log_has_no_dirt() -> None:
    found = measure(make_log(), 0, 0)
    assert (found.total_bytes, found.dirty_ratio, found.is_due, found.segments) == (0, 0.0, False, [])


@pytest.mark.parametrize(("threshold", "due"), [(0.0, True), (0.49, True), (0.5, False), (0.51, False), (1.0, False)])
def test_a_log_is_due_when_its_ratio_is_above_the_threshold(threshold: float, due: bool) -> None:
    log = segments_of_two(2, min_cleanable_dirty_ratio=threshold)
    found = measure(log, 2, 0)
    assert (found.dirty_ratio, found.is_due) == (0.5, due)


@pytest.mark.scenario(50)
def test_a_ratio_of_one_or_zero_is_never_above_those_thresholds() -> None:
    assert not measure(segments_of_two(2, min_cleanable_dirty_ratio=1.0), 0, 0).is_due
    assert not measure(segments_of_two(2, min_cleanable_dirty_ratio=0.0), 4, 0).is_due


# Longest wait


@pytest.mark.scenario(83)
def test_kafka_7321_an_overdue_log_is_due_at_any_ratio() -> None:
    log = segments_of_two(2, timestamp=HOUR_MS, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=6 * HOUR_MS)
    at_limit, later = measure(log, 0, 7 * HOUR_MS), measure(log, 0, 7 * HOUR_MS + 5)
    assert (at_limit.max_lag_overdue_ms, at_limit.is_due) == (0, False)
    assert (later.max_lag_overdue_ms, later.is_due) == (5, True)


def test_only_the_dirty_part_counts_as_waiting() -> None:
    log = segments_of_two(1, timestamp=1_000, max_compaction_lag_ms=HOUR_MS)
    segments_of_two(1, timestamp=5_000, log=log)
    assert measure(log, 0, HOUR_MS + 6_000).max_lag_overdue_ms == 5_000
    assert measure(log, 2, HOUR_MS + 6_000).max_lag_overdue_ms == 1_000


def test_an_endless_wait_does_not_make_a_log_due() -> None:
    log = make_log(max_compaction_lag_ms=1)
    Producer(log, 1, transactional=True).write("a")
    log.roll(1_000)
    found = measure(log, 0, HOUR_MS)
    assert found.max_lag_overdue_ms > 0
    assert (found.cleanable_bytes, found.is_due) == (0, False)


def test_records_without_a_timestamp_do_not_wait() -> None:
    log = make_log(max_compaction_lag_ms=1, message_timestamp_before_max_ms=2**62)
    append(log, ("k", "v"), timestamp=0, now_ms=0, roll=True)
    assert measure(log, 0, HOUR_MS).max_lag_overdue_ms == 0


def test_holes_in_the_offsets_do_not_count() -> None:
    log = log_with_holes((0, [batch(("a", "1"))]), (10, [batch(("b", "1"), base_offset=15)]), (20, []))
    found = measure(log, 5, 0)
    assert (found.upper_offset, len(found.segments)) == (20, 2)
    assert found.cleanable_bytes == log.size_bytes
