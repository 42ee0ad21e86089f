"""Sentences of an advice: sizes, times, reasons."""

from __future__ import annotations

import pytest

from ottla.storage.advice.advising import Goals, advise
from ottla.storage.advice.notes import load_notes, miss_text, size_text, time_text
from ottla.storage.advice.prediction import DAY_MS
from ottla.storage.advice.simulating import CleanerSettings
from ottla.storage.topics.config import COMPACT, LogConfig
from support.cleaner.traces import BACKOFF_MS, HOUR_MS, TRACES, summarized

CONFIG = LogConfig(cleanup_policy=(COMPACT,), segment_bytes=60_000)


def test_sizes_and_times_have_the_largest_fitting_unit() -> None:
    sizes = [(0, "0 B"), (999, "999 B"), (1_234, "1.23 KB"), (50e9, "50 GB"), (2e15, "2000 TB")]
    assert [size_text(size) for size, _ in sizes] == [text for _, text in sizes]
    times = [(None, None), (1_999, "1999 ms"), (2_000, "2.0 s"), (DAY_MS, "24.0 h"), (3 * DAY_MS, "3.0 d")]
    assert [time_text(time) for time, _ in times] == [text for _, text in times]


@pytest.mark.parametrize(
    "trace, goals, cleaner, sentence",
    [
        ("bursts", Goals(erase_within_ms=HOUR_MS), CleanerSettings(), "a segment ends by a write, and 4.0 h passed"),
        ("uniform", Goals(erase_within_ms=60_000), CleanerSettings(), "the value waits for the end of its segment"),
        ("uniform", Goals(erase_within_ms=60_000), CleanerSettings(bytes_per_s=500), "one clean pass takes"),
        ("uniform", Goals(disk_bytes=1_000), CleanerSettings(), "the newest values of the keys are 124 KB unpacked"),
        ("uniform", Goals(bootstrap_bytes=1_000), CleanerSettings(), "a new reader reads"),
        (
            "uniform",
            Goals(HOUR_MS, cleaner_bytes_per_s=0),
            CleanerSettings(),
            "each pass reads and writes the whole log",
        ),
    ],
)
def test_a_goal_that_is_not_reached_has_a_reason(
    trace: str, goals: Goals, cleaner: CleanerSettings, sentence: str
) -> None:
    summary = summarized(TRACES[trace].writes(300), CONFIG)
    found = advise([summary], CONFIG, cleaner, goals, span_ms=2 * HOUR_MS)
    assert found.advised is None
    texts = [miss_text(miss, found.nearest, [summary], 1.0) for miss in found.nearest.misses]
    assert [text for text in texts if sentence in text], texts


def test_passes_that_hardly_fit_into_a_day_are_reported() -> None:
    summary = summarized(TRACES["uniform"].writes(600), CONFIG)
    slow = CleanerSettings(bytes_per_s=20, backoff_ms=BACKOFF_MS)
    costs = advise([summary], CONFIG, slow, Goals(), span_ms=DAY_MS).today.costs
    (sentence,) = load_notes(costs, slow)
    assert sentence.endswith("passes come later than predicted.")
    assert not list(load_notes(costs, CleanerSettings(threads=100)))
