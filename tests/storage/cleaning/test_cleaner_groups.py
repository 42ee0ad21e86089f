"""The grouping of segments by a pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.storage.cleaning.cleaner import group_segments
from ottla.storage.logs.log import Log
from support.logs.batches import batch
from support.logs.make_log import all_batches, append, clean, log_with_holes, make_log

MAX_INT = 2**31 - 1


def ten_segments() -> Log:
    log = make_log(index_interval_bytes=1)
    for number in range(20):
        append(log, ("k", str(number).zfill(3)), timestamp=1_000 + number, roll=number % 2 == 1)
    return log


def groups(log: Log, **limits: Any) -> list[list[int]]:
    """Return base offsets by group, of all sealed segments."""
    found = group_segments(log.segments.non_active(), log.segments.active.base_offset, replace(log.config, **limits))
    return [[segment.base_offset for segment in group] for group in found]


@pytest.mark.scenario(35)
def test_within_the_limits_everything_becomes_one_segment() -> None:
    assert groups(ten_segments()) == [list(range(0, 20, 2))]


@pytest.mark.scenario(35)
@pytest.mark.parametrize("limits", [{"segment_bytes": 1}, {"segment_index_bytes": 1}])
def test_a_segment_that_exceeds_a_limit_forms_its_own_group(limits: dict[str, int]) -> None:
    assert groups(ten_segments(), **limits) == [[base] for base in range(0, 20, 2)]


@pytest.mark.scenario(35)
@pytest.mark.parametrize("measure", ["log", "offset index", "time index"])
def test_a_group_holds_as_many_segments_as_fit_in_order(measure: str) -> None:
    log = ten_segments()
    first = log.segments.first
    limits = {
        "log": {"segment_bytes": 3 * first.size_bytes},
        "offset index": {"segment_index_bytes": 3 * first.offset_index.size_bytes},
        "time index": {"segment_index_bytes": 3 * first.time_index.size_bytes},
    }[measure]
    if measure == "offset index":
        for segment in log.segments:
            segment.time_index.reset()
    found = groups(log, **limits)
    assert found == [[0, 2, 4], [6, 8, 10], [12, 14, 16], [18]]


@pytest.mark.scenario(37, 38)
@pytest.mark.parametrize(("last_offset", "count"), [(MAX_INT, 1), (MAX_INT + 1, 2)])
def test_kafka_6264_a_group_spans_at_most_the_range_of_an_index_entry(last_offset: int, count: int) -> None:
    """The limit also holds when no index has an entry for the segments' last offsets."""
    log = log_with_holes(
        (0, [batch(("a", "1"))]),
        (1_000, [batch(("b", "1"), base_offset=last_offset)]),
        (last_offset + 1, []),
    )
    assert [segment.offset_index.entry_count for segment in log.segments] == [0, 0, 0]
    assert len(groups(log)) == count


def test_a_segment_counts_as_extending_to_the_next_ones_base() -> None:
    log = log_with_holes(
        (0, [batch(("a", "1"))]),
        (5, [batch(("b", "1"), base_offset=5)]),
        (MAX_INT + 2, [batch(("c", "1"), base_offset=MAX_INT + 2)]),
        (MAX_INT + 3, []),
    )
    assert groups(log) == [[0], [5, MAX_INT + 2]]


@pytest.mark.scenario(36)
def test_emptied_segments_join_a_group_across_any_offset_range() -> None:
    bases = [0, MAX_INT + 10, 2 * MAX_INT + 20]
    log = log_with_holes(
        *[(base, [batch(("k", "v"), base_offset=base)]) for base in bases],
        (3 * MAX_INT + 30, [batch(("k", "v"), base_offset=3 * MAX_INT + 30)]),
        (3 * MAX_INT + 31, []),
    )
    assert groups(log) == [[base] for base in [*bases, 3 * MAX_INT + 30]]
    end, _ = clean(log)
    assert [segment.size_bytes > 0 for segment in log.segments] == [False, False, False, True, False]
    assert [found.base_offset for found in all_batches(log)] == [3 * MAX_INT + 30]
    append(log, ("k", "v"), roll=True)
    clean(log, end)
    # The first three are one now; the segment with records would end too far above its base.
    assert [segment.base_offset for segment in log.segments.non_active()] == [0, 3 * MAX_INT + 30]


@pytest.mark.scenario(146)
def test_each_group_becomes_one_segment_named_after_its_first() -> None:
    log = ten_segments()
    log.config = replace(log.config, segment_bytes=4 * log.segments.first.size_bytes)
    _, stats = clean(log)
    assert [segment.base_offset for segment in log.segments] == [0, 8, 16, 20]
    assert (stats.segments_before, stats.segments_after) == (10, 3)
    assert [found.base_offset for found in all_batches(log)] == [19]
    names = log.files.list(log.directory)
    assert [name for name in names if name.endswith(".log")] == [f"{base:020}.log" for base in (0, 8, 16, 20)]
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    assert [name for name in names if name.endswith(".snapshot")] == [f"{base:020}.snapshot" for base in (8, 16, 20)]
