"""Numbers of records, live keys and tombstones of a log. Random histories are in `storage/cleaning/test_cleaner_model.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple

import pytest

from ottla.storage.cleaning.cleaner_manager import save_counts
from ottla.storage.disk import paths
from ottla.storage.logs.log import Log
from ottla.storage.logs.record_counts import RecordCounts
from support.logs.batches import COMMIT
from support.logs.make_log import (
    Producer,
    append,
    append_marker,
    clean,
    contents,
    delete_old_segments,
    make_log,
    reopen,
)

Bounds = tuple[int, int, int, int, int, int]


def bounds(log: Log) -> Bounds:
    """Return the bounds of records, live keys and tombstones."""
    log.survey()
    return astuple(log.counts)


def exactly(records: int, live_keys: int, tombstones: int) -> Bounds:
    return records, records, live_keys, live_keys, tombstones, tombstones


def cleaned(log: Log, max_entries: int | None = None) -> None:
    """Run a pass, and save its counts as the server does."""
    upper_offset = log.segments.active.base_offset
    end_offset, stats = clean(log, max_entries=max_entries)
    if end_offset == upper_offset:
        save_counts(log, end_offset, stats)


@pytest.fixture
def log() -> Log:
    """Return a log with 3 records of 2 keys and 1 tombstone below its active segment, after a pass."""
    log = make_log(segment_bytes=1 << 20, delete_retention_ms=86_400_000)
    append(log, ("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("c", None), ("b", "2"), roll=True)
    cleaned(log)
    return log


def test_counts_are_exact_after_a_pass_and_bounds_above_it(log: Log) -> None:
    assert bounds(log) == exactly(3, 2, 1)
    append(log, ("d", "1"), ("a", None))
    assert bounds(log) == (5, 5, 0, 4, 1, 3)


def test_a_log_that_was_never_cleaned_has_one_record_an_offset_since_it_was_opened() -> None:
    log = make_log(segment_bytes=1 << 20)
    assert bounds(log) == exactly(0, 0, 0)
    append(log, ("a", "1"), ("a", None))
    assert bounds(log) == (2, 2, 0, 2, 0, 2)
    append(log, ("b", "1"), roll=True)
    log = reopen(log)
    assert bounds(log) == (0, 3, 0, 3, 0, 3)
    append(log, ("b", "2"))
    assert bounds(log) == (1, 4, 0, 4, 0, 4)


def test_markers_are_no_records(log: Log) -> None:
    producer = Producer(log, 7, transactional=True)
    producer.write(("d", "1"))
    producer.commit()
    assert bounds(log)[:2] == (4, 4)
    log.roll(1_000)
    append_marker(log, COMMIT, 8)
    assert bounds(log)[:2] == (4, 5), "how many of the markers are in which segment is not known"
    cleaned(log)
    assert bounds(log) == exactly(4, 3, 1)


def test_counts_outlive_a_restart_of_any_kind(log: Log) -> None:
    for is_clean in (True, False):
        log = reopen(log, clean=is_clean)
        assert bounds(log) == exactly(3, 2, 1)


def test_a_moved_log_start_makes_bounds(log: Log) -> None:
    log.advance_log_start(5)
    assert bounds(log) == (0, 1, 0, 1, 0, 1)
    log.advance_log_start(log.log_end_offset)
    assert bounds(log) == exactly(0, 0, 0)


def test_counts_are_not_those_of_a_log_that_another_program_has_cleaned_before_retention() -> None:
    log = make_log(segment_bytes=150, cleanup_policy=("compact", "delete"), retention_ms=-1, delete_retention_ms=0)
    for key in "abcdef":
        append(log, (key, "v" * 60), roll=True)
    cleaned(log)
    path = paths.join(log.directory, paths.RECORDS_FILE)
    file = log.files.open(path)
    text = file.read_at(0, file.size())
    file.close()
    # Apache Kafka leaves the file alone. Of what was counted, its passes leave the records of `a` and `b`.
    for key in "cdef":
        append(log, (key, None), roll=True)
    for now_ms in (2_000, 2_001, 2_002):
        clean(log, now_ms=now_ms)
    log.advance_log_start(1)
    assert delete_old_segments(log, 0, 0) == 1
    file = log.files.open(path, create=True, truncate=True)
    file.append(text)
    file.close()
    log = reopen(log)
    found, records = bounds(log), [offset for offset, _, _ in contents(log) if offset >= 1]
    assert found[0] <= len(records) <= found[1]


def test_segments_never_change_while_the_file_with_their_counts_is_there(log: Log) -> None:
    path = paths.join(log.directory, paths.RECORDS_FILE)
    append(log, ("a", "3"), roll=True)
    assert log.files.exists(path)
    clean(log)
    assert not log.files.exists(path)
    assert bounds(log)[:2] == (0, 7)


def test_a_pass_whose_map_was_full_counts_nothing(log: Log) -> None:
    append(log, ("d", "1"), ("e", "1"), ("f", "1"), roll=True)
    cleaned(log, max_entries=2)
    assert bounds(log)[:2] == (3, 9), "the first segment may have gaps now"
    append(log, ("g", "1"))
    assert bounds(log)[:2] == (4, 10)
    cleaned(log)
    assert bounds(log)[:2] == (7, 7)


def _cut_last_number(text: str) -> str:
    return text.rpartition(" ")[0] + "\n"


def _other_size(text: str) -> str:
    version, count, entry = text.splitlines()
    start, end, size_bytes, *rest = entry.split()
    return "\n".join([version, count, " ".join([start, end, str(int(size_bytes) + 1), *rest])]) + "\n"


@pytest.mark.parametrize(
    "changed",
    [
        _cut_last_number,
        _other_size,  # Apache Kafka has cleaned some of the segments since
        lambda text: text.replace(" 3 1 0\n", " 3 4 0\n"),
        lambda text: text.replace(" 3 1 0\n", " 7 1 0\n"),
        lambda text: text.replace("0 6 ", "0 60 "),
        lambda _: "",
        lambda _: "\0" * 30,
    ],
)
def test_a_file_that_cannot_be_right_is_not_used(log: Log, changed: Callable[[str], str]) -> None:
    path = paths.join(log.directory, paths.RECORDS_FILE)
    file = log.files.open(path)
    text = file.read_at(0, file.size()).decode()
    file.close()
    assert changed(text) != text
    log.close(0)
    file = log.files.open(path, create=True, truncate=True)
    file.append(changed(text).encode())
    file.close()
    assert bounds(reopen(log))[:2] == (0, 6)


def test_totals_add_up() -> None:
    each = RecordCounts(
        records_min=1, records_max=2, live_keys_min=3, live_keys_max=4, tombstones_min=5, tombstones_max=6
    )
    assert astuple(RecordCounts.total([each, each])) == (2, 4, 6, 8, 10, 12)
    assert astuple(RecordCounts.total([])) == (0,) * 6
