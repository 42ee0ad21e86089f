"""Advised settings, against the real log and cleaner with a moved clock: they reach the goal, and cheaper ones do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ottla.storage.advice.advising import RESERVE, Candidate, Costs, Goals, advise, spread
from ottla.storage.advice.simulating import CleanerSettings
from ottla.storage.topics.config import COMPACT, TOPIC_OPTIONS, LogConfig
from support.cleaner.traces import BACKOFF_MS, HOUR_MS, TRACES, Write, run_after, summarized
from support.sizes import size, some

AT_ONCE = CleanerSettings(bytes_per_s=1e15, backoff_ms=BACKOFF_MS)
MEASURED, FOLLOWING = 720, size(720, 1_440)
"""Batches that are measured, and that then show whether the advice was right: whole days of `day and night`."""
TODAY = LogConfig(
    cleanup_policy=(COMPACT,), segment_bytes=100_000, segment_ms=24 * HOUR_MS, min_cleanable_dirty_ratio=0.6
)
GOALS: dict[str, Callable[[Costs], Goals]] = {
    "erase within": lambda today: Goals(erase_within_ms=_part(today.superseded_longest_ms or 0, 0.6)),
    "disk below": lambda today: Goals(disk_bytes=_part(today.peak_bytes, 0.8)),
    "bootstrap below": lambda today: Goals(bootstrap_bytes=_part(today.mean_bytes, 0.85)),
    "cleaner below": lambda today: Goals(
        erase_within_ms=_part(today.superseded_longest_ms or 0, 1.2),
        cleaner_bytes_per_s=_part(today.cleaner_bytes_per_s, 1.2),
    ),
}


def _part(value: float, part: float) -> int:
    return int(value * part)


def costs_in_fact(candidate: Candidate, trace: list[Write]) -> Goals:
    """Return what the real cleaner makes of these settings, after the measured batches."""
    changes: dict[str, Any] = {
        TOPIC_OPTIONS[name].attribute: TOPIC_OPTIONS[name].parse(value) for name, value in candidate.changes.items()
    }
    real = run_after(trace[:MEASURED], trace[MEASURED:], TODAY, replace(TODAY, **changes))
    per_s = (real.read_bytes_per_day + real.written_bytes_per_day) / 86_400
    return Goals(real.superseded.longest_ms, real.peak_bytes, real.mean_bytes, round(per_s))


def missed(costs: Goals, goals: Goals) -> list[str]:
    return [
        name
        for name, cost, goal in zip(Goals._fields, costs, goals, strict=True)
        if cost is not None and goal is not None and cost > goal
    ]


@pytest.mark.parametrize("trace, goal", some(product(TRACES, GOALS), 6))
def test_advised_settings_reach_the_goal_and_the_next_cheaper_ones_do_not(trace: str, goal: str) -> None:
    writes = TRACES[trace].writes(MEASURED + FOLLOWING)
    summary = summarized(writes[:MEASURED], TODAY)
    span_ms = writes[-1].at_ms - writes[MEASURED].at_ms
    today = advise([summary], TODAY, AT_ONCE, Goals(), span_ms=span_ms).today
    goals = GOALS[goal](today.costs)
    found = advise([summary], TODAY, AT_ONCE, goals, span_ms=span_ms)
    if found.advised is None:
        assert found.nearest.misses
        assert missed(costs_in_fact(found.nearest, writes), _scaled(goals, 1 / RESERVE**2))
        return
    assert not missed(costs_in_fact(found.advised, writes), goals)
    # Settings that promise no erasure, for which its time is the default of max.compaction.lag.ms, may still reach the goal.
    is_predicted = found.cheaper is not None and any(
        miss.goal != "erase_within_ms" or miss.cost < TODAY.max_compaction_lag_ms for miss in found.cheaper.misses
    )
    if found.cheaper is not None and is_predicted and found.cheaper.excess > RESERVE:
        assert missed(costs_in_fact(found.cheaper, writes), goals)


def _scaled(goals: Goals, scale: float) -> Goals:
    return Goals(*(None if goal is None else int(goal * scale) for goal in goals))


def test_logs_of_all_sizes_are_chosen_the_largest_first() -> None:
    assert spread([5, 40, 20, 10, 30], 9) == [1, 4, 2, 3, 0]
    assert spread([5, 40, 20, 10, 30], 2) == [1, 2]
    assert spread([], 2) == []
