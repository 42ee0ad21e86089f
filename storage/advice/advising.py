"""Choice of settings for a goal: each of some candidates is simulated, and the cheapest that reaches the goal is advised.

    erase within      the longest time that a superseded value can be read
    disk below        the largest size of the logs
    bootstrap below   the same size, on average over time: what a new reader has to read
    cleaner below     bytes a second that the cleaner reads and writes

A topic has one log for each partition. Sizes and work are summed over them, and of ages the largest counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..topics.config import TOPIC_OPTIONS, LogConfig
from .prediction import DAY_MS, Prediction
from .simulating import CleanerSettings, Simulation
from .summary import Summary

SPAN_MS = 30 * DAY_MS
"""Simulated time of each candidate."""
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_RATIOS = (0.05, 0.2, 0.5, 0.8)
_LAG_PARTS = (0.9, 0.7, 0.4)
"""Parts of the time of an erasure that are tried as `max.compaction.lag.ms`; rounds, rolls and passes take the rest."""
_SEGMENTS_MS = (_HOUR_MS, DAY_MS)

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
    superseded_p50_ms: int | None
    superseded_p99_ms: int | None
    superseded_longest_ms: int | None
    tombstone_longest_ms: int | None

    @classmethod
    def from_predictions(cls, found: Sequence[Prediction]) -> Costs:
        """Return the costs of all logs together. Their peaks are taken as of one time."""
        return cls(
            peak_bytes=sum(each.peak_bytes for each in found),
            mean_bytes=sum(each.mean_bytes for each in found),
            least_bytes=sum(each.least_bytes for each in found),
            cleaner_bytes_per_s=sum(each.read_bytes_per_day + each.written_bytes_per_day for each in found) / 86_400,
            thread_hours_per_day=sum(each.busy_ms_per_day for each in found) / _HOUR_MS,
            passes_per_day=sum(each.passes for each in found) / max(1, max(each.span_ms for each in found)) * DAY_MS,
            superseded_p50_ms=_largest(each.superseded.p50_ms for each in found),
            superseded_p99_ms=_largest(each.superseded.p99_ms for each in found),
            superseded_longest_ms=_largest(each.superseded.longest_ms for each in found),
            tombstone_longest_ms=_largest(each.tombstones.longest_ms for each in found),
        )


def _largest(values: Iterator[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


class Candidate(NamedTuple):
    """Settings, and what they cost."""

    changes: Mapping[str, str]
    """Options that differ from today's, by their names."""
    costs: Costs
    misses: tuple[str, ...]
    """Sentences on the goals that they do not reach."""


class Advice(NamedTuple):
    """Result of `advise`."""

    today: Candidate
    advised: Candidate | None
    """The candidate with the least work of the cleaner that reaches all goals; None if none does."""
    nearest: Candidate
    """The advised one, or the one that comes nearest."""


def advise(
    summaries: Sequence[Summary],
    config: LogConfig,
    cleaner: CleanerSettings,
    goals: Goals,
    *,
    span_ms: int = SPAN_MS,
    on_candidate: Callable[[int], None] = lambda _: None,
) -> Advice:
    """Simulate today's settings and, if there are goals, some others.

    Args:
        summaries: Of the topic's logs; each has records with a timestamp.
        on_candidate: Called with the number of each candidate before it is simulated.

    Raises:
        ValueError: As for `Simulation`.
    """
    found: list[tuple[float, Candidate]] = []
    tried = [config, *(_candidates(config, goals) if any(goal is not None for goal in goals) else ())]
    for number, each in enumerate(tried):
        on_candidate(number)
        predictions = [Simulation(summary, each, cleaner, span_ms=span_ms).run() for summary in summaries]
        costs = Costs.from_predictions(predictions)
        excess = _excess(costs, goals)
        misses = tuple(sentence for sentence, part in excess if part > 1)
        worst = max((part for _, part in excess), default=0.0)
        found.append((worst, Candidate(_changes(config, each), costs, misses)))
    today = found[0][1]
    reaching = [each for _, each in found if not each.misses]
    if reaching:
        best = min(reaching, key=_work)
        return Advice(today, best, best)
    return Advice(today, None, min(found, key=_worst)[1])


def _work(candidate: Candidate) -> tuple[float, int]:
    return candidate.costs.cleaner_bytes_per_s, len(candidate.changes)


def _worst(found: tuple[float, Candidate]) -> float:
    return found[0]


def _candidates(config: LogConfig, goals: Goals) -> Iterator[LogConfig]:
    lags_ms = [config.max_compaction_lag_ms]
    if goals.erase_within_ms is not None:
        lags_ms += [max(1, int(goals.erase_within_ms * part)) for part in _LAG_PARTS]
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


def _excess(costs: Costs, goals: Goals) -> list[tuple[str, float]]:
    """Return for each goal the sentence that says that it is missed, and the cost as a part of the goal."""
    rows: list[tuple[str, float | None, int | None]] = [
        (
            "a superseded value can be read for {} ms, and the goal is {} ms",
            costs.superseded_longest_ms,
            goals.erase_within_ms,
        ),
        ("the logs grow to {} bytes, and the goal is {} bytes", costs.peak_bytes, goals.disk_bytes),
        ("a new reader reads {} bytes, and the goal is {} bytes", costs.mean_bytes, goals.bootstrap_bytes),
        (
            "the cleaner reads and writes {} bytes a second, and the goal is {} bytes a second",
            costs.cleaner_bytes_per_s,
            goals.cleaner_bytes_per_s,
        ),
    ]
    return [
        (sentence.format(round(cost), goal), cost / max(goal, 1))
        for sentence, cost, goal in rows
        if cost is not None and goal is not None
    ]
