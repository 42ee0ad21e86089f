"""Measurement of a log: the same numbers as by hand, on both kernels, and of a damaged, empty or strange log."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

from ottla.protocol.errors import CorruptRecordError
from ottla.storage.advice import tallying
from ottla.storage.advice.measuring import LogMeasuring
from ottla.storage.advice.summary import RollReason, Summary
from ottla.storage.disk import paths
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.cleaner.kernels import both
from support.logs.batches import COMMIT
from support.logs.make_log import SECRET, append, append_marker, clean, make_log

NOW_MS = 1_000_000_000
HOUR_MS = 3_600_000


def measured(log: Log, clean_below: int | None = None, *, sample_keys_max: int = 1 << 10) -> Summary:
    return to_the_end(
        LogMeasuring(
            log.files,
            log.directory,
            log.config,
            clean_below=clean_below,
            log_start_offset=log.log_start_offset,
            now_ms=NOW_MS,
            secret=SECRET,
            sample_keys_max=sample_keys_max,
        ).steps()
    )


@both
@pytest.mark.parametrize("codec", [0, 1])
def test_all_counts_are_those_of_the_records(kernel: ModuleType, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "LogTally", kernel.LogTally)
    rng = random.Random(1)
    log, writes, newest = make_log(segment_bytes=2_000), Counter[str](), dict[str, str | None]()
    for number in range(100):
        pairs = [(str(int(rng.paretovariate(0.5))), None if rng.random() < 0.2 else "v" * 9) for _ in range(7)]
        writes.update(key for key, _ in pairs)
        newest.update(pairs)
        append(log, *pairs, timestamp=number * 10_000, codec=codec)
    found = measured(log)
    assert (found.records, found.batches, found.dirty_records) == (700, 100, 700)
    assert found.size_bytes == log.size_bytes == found.record_bytes + 61 * 100
    assert (found.keys, found.live_keys) == (len(newest), sum(value is not None for value in newest.values()))
    assert sum(row.writes for row in found.writes_per_key) == 700
    by_row = Counter(count if count < 16 else 1 << (count.bit_length() - 1) for count in writes.values())
    assert {row.writes_min: row.keys for row in found.writes_per_key} == by_row
    assert sum(row.gaps for row in found.gaps) == 700 + len(newest)
    assert sum(row.sum for row in found.gaps) == 701 * len(newest)
    assert (sum(each.writes for each in found.buckets), sum(each.records for each in found.buckets)) == (700, 700)
    assert [each.base_offset for each in found.segments] == [each.base_offset for each in log.segments]
    assert {each.rolled_by for each in found.segments[:-1]} == {RollReason.SIZE}
    assert (found.unread_bytes, found.future_records, found.untimed_records, found.late_records) == (0, 0, 0, 0)


@both
def test_a_sample_stands_for_all_keys(kernel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "LogTally", kernel.LogTally)
    log = make_log()
    for number in range(60):
        append(log, *((str(key), "v") for key in range(number % 2, 4_000, 2)))
    found = measured(log, sample_keys_max=512)
    assert 128 <= found.sampled_keys <= 512
    assert found.keys == pytest.approx(4_000, rel=0.15)
    assert {row.writes_min for row in found.writes_per_key} == {16}


def test_the_clean_part_says_which_keys_there_are_and_the_dirty_part_how_often_they_are_written() -> None:
    log = make_log(segment_bytes=2_000)
    for number in range(50):
        append(log, *((str((number * 10 + key) % 100), "v") for key in range(10)), timestamp=1 + number * HOUR_MS // 50)
    log.roll(HOUR_MS)
    upper, _ = clean(log)
    append(log, *((str(key), "v") for key in range(90, 110)), timestamp=HOUR_MS)
    append(log, ("109", "v"), timestamp=HOUR_MS)
    found = measured(log, upper)
    assert {(row.writes_min, row.keys) for row in found.writes_per_key} == {(0, 90), (1, 19), (2, 1)}
    assert (found.records, found.dirty_records, found.writes) == (121, 21, 521)
    assert sum(each.writes for each in found.buckets) == 521
    assert found.segments[0].rolled_by is RollReason.CLEANED


def test_strange_times_are_counted_and_belong_to_no_bucket() -> None:
    log = make_log(message_timestamp_after_max_ms=1 << 60)
    append(log, ("a", "1"), timestamp=1_000)
    append(log, ("b", "1"), timestamp=-1)
    append(log, ("c", "1"), timestamp=NOW_MS + 10 * HOUR_MS * 24, now_ms=NOW_MS, roll=True)
    append(log, ("d", "1"), timestamp=HOUR_MS * 100, roll=True, now_ms=NOW_MS)
    append(log, ("e", "1"), timestamp=HOUR_MS, now_ms=NOW_MS)
    found = measured(log)
    assert (found.future_records, found.untimed_records, found.late_records) == (1, 1, 1)
    assert sum(each.records for each in found.buckets) == 3
    assert [each.rolled_by for each in found.segments[:2]] == [RollReason.TIME, RollReason.OTHER]


def test_an_open_transaction_is_found_with_its_first_record() -> None:
    log = make_log()
    append(log, ("a", "1"), producer_id=7, transactional=True, timestamp=1_000)
    append(log, ("a", "2"), producer_id=8, transactional=True, timestamp=2_000)
    append_marker(log, COMMIT, 7, timestamp=3_000)
    found = measured(log)
    assert [(each.producer_id, each.first_offset) for each in found.open_transactions] == [(8, 1)]
    assert (found.records, found.control_records, found.writes) == (2, 1, 3)


def test_an_empty_log_has_an_empty_summary() -> None:
    found = measured(make_log())
    assert (found.records, found.keys, found.buckets, found.distinct_keys(10)) == (0, 0, (), 0)


def test_an_append_in_progress_is_left_out_and_damage_before_the_last_segment_is_an_error() -> None:
    log = make_log()
    append(log, ("a", "1"), roll=True)
    append(log, ("b", "1"))
    file = log.files.open(paths.log_path(log.directory, 1))
    file.append(b"\0" * 70)
    assert measured(log).unread_bytes == 70
    file = log.files.open(paths.log_path(log.directory, 0))
    file.append(b"\0" * 70)
    with pytest.raises(CorruptRecordError):
        measured(log)


KEYS: dict[str, Callable[[random.Random, int], str]] = {
    "at random": lambda rng, _: str(int(rng.paretovariate(0.7))),
    "three times each": lambda _, number: str(number // 3),
    "in turn": lambda _, number: str(number % 120),
    "lately written": lambda rng, number: str(max(0, 1_000 + number // 20 - int(rng.paretovariate(0.5)))),
}


@pytest.mark.parametrize("kind", KEYS)
def test_different_keys_of_a_run_are_those_of_the_mean_run(kind: str) -> None:
    rng = random.Random(2)
    keys = [KEYS[kind](rng, number) for number in range(10_000)]
    log = make_log()
    for begin in range(0, 5_000, 100):
        append(log, *((key, "v") for key in keys[begin : begin + 100]))
    found = measured(log, sample_keys_max=1 << 13)
    for writes in (1, 10, 100, 1_000, 2_500, 5_000):
        runs = [len(set(keys[begin : begin + writes])) for begin in range(0, 5_001 - writes, max(1, writes // 10))]
        assert found.distinct_keys(writes) == pytest.approx(sum(runs) / len(runs), rel=0.05)
    assert found.distinct_keys(10_000) == pytest.approx(len(set(keys)), rel=0.1)
