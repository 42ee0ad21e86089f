"""Choice of settings for a goal: each of some candidates is simulated, and the cheapest that reaches the goal is advised.

    erase within      the longest time that a superseded value can be read; `max.compaction.lag.ms` must promise it
    disk below        the largest size of the logs
    bootstrap below   the same size, on average over time: what a new reader has to read
    cleaner below     bytes a second that the cleaner reads and writes

A topic has one log for each partition. Sizes and work are summed over them, and of ages the largest counts. All candidates are
simulated over a few of the logs, and then the cheapest of them over all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from ..topics.config import TOPIC_OPTIONS, LogConfig
from .prediction import DAY_MS, Prediction
from .simulating import CleanerSettings, simulate
from .summary import Summary

SPAN_MS = 30 * DAY_MS
"""Simulated time of each candidate."""
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_RATIOS = (0.05, 0.2, 0.5, 0.8)
_LAG_PARTS = (0.85, 0.7, 0.4)
"""Parts of the time of an erasure that are tried as `max.compaction.lag.ms`; rounds, rolls and passes take the rest."""
_SEGMENTS_MS = (_HOUR_MS, DAY_MS)
RESERVE = 1.1
"""A goal is reached if this multiple of the predicted cost is within it: a prediction may be wrong by that."""
CURVE_POINTS = 200
SEARCHED_LOGS = 4
"""Logs over which all candidates are simulated."""
FINALISTS = 4
"""Candidates that are then simulated over all logs."""

ADVISED = ("min.cleanable.dirty.ratio", "max.compaction.lag.ms", "min.compaction.lag.ms", "segment.ms", "segment.bytes")


class Goals(NamedTuple):
    """Upper bounds; None: no goal."""

    erase_within_ms: int | None = None
    disk_bytes: int | None = None
    bootstrap_bytes: int | None = None
    cleaner_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Costs of some settings for all logs of a topic."""

    peak_bytes: int
    mean_bytes: int
    least_bytes: int
    cleaner_bytes_per_s: float
    thread_hours_per_day: float
    passes_per_day: float
    span_ms: int
    """The time that was simulated."""
    curve_bytes: tuple[int, ...]
    """The size at `CURVE_POINTS` times at even distances, the first at the begin and the last at the end."""
    superseded_p50_ms: int | None
    superseded_p99_ms: int | None
    superseded_longest_ms: int | None
    tombstone_longest_ms: int | None

    @classmethod
    def from_predictions(cls, found: Sequence[Prediction], scale: float) -> Costs:
        """Return the costs of all logs together, of which `found` has one part in `scale`. Their peaks are taken as of one time."""
        return cls(
            peak_bytes=round(scale * sum(each.peak_bytes for each in found)),
            mean_bytes=round(scale * sum(each.mean_bytes for each in found)),
            least_bytes=round(scale * sum(each.least_bytes for each in found)),
            cleaner_bytes_per_s=scale
            * sum(each.read_bytes_per_day + each.written_bytes_per_day for each in found)
            / 86_400,
            thread_hours_per_day=scale * sum(each.busy_ms_per_day for each in found) / _HOUR_MS,
            passes_per_day=scale * sum(each.passes / max(1, each.span_ms) for each in found) * DAY_MS,
            span_ms=max((each.span_ms for each in found), default=0),
            curve_bytes=tuple(round(scale * sum(sizes)) for sizes in zip(*map(_curve, found), strict=True)),
            superseded_p50_ms=_largest(each.superseded.p50_ms for each in found),
            superseded_p99_ms=_largest(each.superseded.p99_ms for each in found),
            superseded_longest_ms=_largest(each.superseded.longest_ms for each in found),
            tombstone_longest_ms=_largest(each.tombstones.longest_ms for each in found),
        )


def _curve(found: Prediction) -> list[int]:
    times = [at_ms for at_ms, _ in found.sizes]
    wanted = (found.span_ms * number // (CURVE_POINTS - 1) for number in range(CURVE_POINTS))
    return [found.sizes[max(0, bisect_right(times, at_ms) - 1)][1] for at_ms in wanted]


def _largest(values: Iterator[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


class Miss(NamedTuple):
    """A goal that is not reached."""

    goal: str
    """Name of a field of `Goals`."""
    cost: float
    limit: int


class Candidate(NamedTuple):
    """Settings, and what they cost."""

    changes: Mapping[str, str]
    """Options that differ from today's, by their names."""
    costs: Costs
    misses: tuple[Miss, ...]
    """The goals that they do not reach."""
    excess: float
    """The worst cost that misses a goal, as a multiple of that."""


class Advice(NamedTuple):
    """Result of `advise`."""

    today: Candidate
    advised: Candidate | None
    """The candidate with the least work of the cleaner that reaches all goals; None if none does."""
    nearest: Candidate
    """The advised one, or the one that comes nearest."""
    cheaper: Candidate | None
    """The candidate with the most work of those with less than the advised one. None of those reaches all goals."""


def spread(sizes: Sequence[int], most: int) -> list[int]:
    """Return the indexes of at most `most` of these sizes: the largest, and others at even distances down to the small ones."""
    by_size = sorted(range(len(sizes)), key=lambda at: -sizes[at])
    most = min(most, len(sizes))
    return [by_size[number * len(sizes) // most] for number in range(most)]


def advise(
    summaries: Sequence[Summary],
    config: LogConfig,
    cleaner: CleanerSettings,
    goals: Goals,
    *,
    scale: float = 1.0,
    span_ms: int = SPAN_MS,
    on_candidate: Callable[[int], None] = lambda _: None,
) -> Advice:
    """Simulate today's settings and, if there are goals, some others.

    Args:
        summaries: Of the topic's logs; each has records with a timestamp.
        scale: The size of all logs of the topic, as a multiple of that of these.
        on_candidate: Called with the number of each simulation before it begins.

    Raises:
        ValueError: As for `simulate`.
    """
    search = _Search(summaries, cleaner, goals, config, scale, span_ms, on_candidate, count(1))
    everything = range(len(summaries))
    today = search.candidate(config, everything)
    if all(goal is None for goal in goals):
        return Advice(today, today, today, None)
    few = spread([each.size_bytes for each in summaries], SEARCHED_LOGS)
    found = {each: search.candidate(each, few) for each in _candidates(config, goals)}
    if len(few) < len(summaries):
        finalists = sorted(found, key=lambda each: _rank(found[each]))[:FINALISTS]
        found = {each: search.candidate(each, everything) for each in finalists}
    found[config] = today
    nearest = min(found.values(), key=_rank)
    if nearest.misses:
        return Advice(today, None, nearest, None)
    cheaper = [each for each in found.values() if _work(each) < _work(nearest)]
    return Advice(today, nearest, nearest, max(cheaper, key=_work, default=None))


class _Search(NamedTuple):
    """The part that all candidates have in common."""

    summaries: Sequence[Summary]
    cleaner: CleanerSettings
    goals: Goals
    today: LogConfig
    scale: float
    span_ms: int
    on_candidate: Callable[[int], None]
    numbers: Iterator[int]

    def candidate(self, config: LogConfig, chosen: Sequence[int]) -> Candidate:
        """Simulate settings over the chosen summaries."""
        self.on_candidate(next(self.numbers))
        all_bytes = sum(each.size_bytes for each in self.summaries)
        chosen_bytes = sum(self.summaries[at].size_bytes for at in chosen)
        predictions = [simulate(self.summaries[at], config, self.cleaner, span_ms=self.span_ms) for at in chosen]
        costs = Costs.from_predictions(predictions, self.scale * all_bytes / max(1, chosen_bytes))
        misses = tuple(_misses(costs, config, self.goals))
        return Candidate(
            _changes(self.today, config),
            costs,
            misses,
            max((miss.cost / max(1, miss.limit) for miss in misses), default=0.0),
        )


def _rank(candidate: Candidate) -> tuple[bool, float, float, int]:
    """Return an order: those that reach the goals by their work, then the others by the distance to the goals."""
    return (bool(candidate.misses), candidate.excess, *_work(candidate))


def _work(candidate: Candidate) -> tuple[float, int]:
    return candidate.costs.cleaner_bytes_per_s, len(candidate.changes)


def _candidates(config: LogConfig, goals: Goals) -> Iterator[LogConfig]:
    lags_ms = [config.max_compaction_lag_ms]
    if goals.erase_within_ms is not None:
        lags_ms = [max(1_000, int(goals.erase_within_ms * part) // 1_000 * 1_000) for part in _LAG_PARTS]
    for lag_ms in lags_ms:
        for ratio in (config.min_cleanable_dirty_ratio, *_RATIOS):
            for segment_ms in (config.segment_ms, *(each for each in _SEGMENTS_MS if each < config.segment_ms)):
                tried = replace(
                    config,
                    max_compaction_lag_ms=lag_ms,
                    min_compaction_lag_ms=min(config.min_compaction_lag_ms, lag_ms),
                    min_cleanable_dirty_ratio=ratio,
                    segment_ms=segment_ms,
                )
                if tried != config and (segment_ms < lag_ms or segment_ms == config.segment_ms):
                    yield tried


def _changes(today: LogConfig, other: LogConfig) -> dict[str, str]:
    names = {name: TOPIC_OPTIONS[name].attribute for name in ADVISED}
    return {
        name: str(getattr(other, attribute))
        for name, attribute in names.items()
        if getattr(other, attribute) != getattr(today, attribute)
    }


def _misses(costs: Costs, config: LogConfig, goals: Goals) -> Iterator[Miss]:
    # Only max.compaction.lag.ms promises an erasure. Without it, fewer writes than before would be enough to break the goal.
    erased_ms = max(costs.superseded_longest_ms or 0, config.max_compaction_lag_ms)
    reached = Goals(erased_ms, costs.peak_bytes, costs.mean_bytes, round(costs.cleaner_bytes_per_s))
    for name, cost, limit in zip(Goals._fields, reached, goals, strict=True):
        if cost is not None and limit is not None and cost * RESERVE > limit:
            yield Miss(name, cost, limit)
