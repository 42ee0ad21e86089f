"""Outlook for a log that is not eligible: the moves that would make it eligible, and from when on.

The moves are tried: a `HypotheticalLog` log, which is the real one except for the supposed changes, is measured like any
other. So the advice uses the same measurement as the selection. HypotheticalLog segments have no files; only their offsets are
used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, islice
from math import floor
from typing import cast

from ..logs.log import Log
from ..logs.rolling import next_roll
from ..logs.segments import SegmentList
from ..segment.segment import LogSegment
from ..steps import Steps
from ..topics.config import COMPACT, LogConfig
from ..topics.options import MAX_LONG
from .dirtiness import (
    Measurable,
    dirtiness_in_pieces,
    due_from_ms,
    oldest_clean_key_ms_in_pieces,
    oldest_dirty_ms_in_pieces,
    pieces,
)

TRANSACTIONS_MAX = 1_000
"""Maximum number of open transactions that are checked: half a millisecond."""


class RemedyAction(StrEnum):
    """Action on a log that the cleaner does not clean, the smallest first."""

    ROLL = "roll"
    """Rolls the active segment, by a record or by command."""
    END_TRANSACTIONS = "end_transactions"
    """Ends each transaction that is open now."""
    NO_MIN_LAG = "no_min_compaction_lag"
    """Sets `min.compaction.lag.ms=0`."""
    LOWER_RATIO = "lower_min_cleanable_dirty_ratio"
    COMPACT_POLICY = "compact_policy"
    """Sets `cleanup.policy=compact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyPlan:
    """A set of moves that together make a log eligible; all of them are required."""

    moves: tuple[RemedyAction, ...]
    eligible_at_ms: int | None
    """Time from which it is eligible, in ms since 1970; None: at once."""

    @property
    def since_ms(self) -> int:
        """Sort key: `eligible_at_ms`, with None as the earliest."""
        return self.eligible_at_ms or 0

    min_cleanable_dirty_ratio: float | None = None
    """New value of the option, if a move changes it."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without a marker."""

    producer_id: int
    first_offset: int


class _Unwritten:
    """The empty segment that a roll would create."""

    size_bytes = 0

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset


class HypotheticalLog:
    """A log with supposed changes."""

    def __init__(
        self,
        log: Measurable,
        *,
        config: LogConfig | None = None,
        is_rolled: bool = False,
        last_stable_offset: int | None = None,
    ) -> None:
        self.config = log.config if config is None else config
        self.segments = log.segments
        self.counter = log.counter
        self.log_start_offset = log.log_start_offset
        self.log_end_offset = log.log_end_offset
        self.last_stable_offset = log.last_stable_offset if last_stable_offset is None else last_stable_offset
        if is_rolled and log.segments.active.base_offset < log.log_end_offset:
            self.segments = SegmentList([*log.segments, cast(LogSegment, _Unwritten(log.log_end_offset))])


def due_at_in_pieces(log: Measurable, dirty_from: int, now_ms: int) -> Steps[int | None]:
    """Return the first time, not before `now_ms`, at which a log is due if nothing is written; None if it never is.

    Only three things change with time: segments become old enough for `min.compaction.lag.ms`, and `max.compaction.lag.ms` and
    `ottla.key.retention.ms` end. A due log stays due, so the first such moment can be found by bisection.
    """
    config = log.config
    moments: set[int] = set()
    has_ages = config.ottla_key_retention_ms >= 0
    for number, piece in enumerate(pieces(log.segments.between(dirty_from, log.segments.active.base_offset))):
        if number:
            yield
        moments.update(segment.largest_timestamp_ms + config.min_compaction_lag_ms for segment in piece)
        if has_ages:
            moments.update(due_from_ms(config, segment.first_batch_timestamp_ms) for segment in piece)
    if has_ages and (oldest_key_ms := (yield from oldest_clean_key_ms_in_pieces(log, dirty_from))) is not None:
        moments.add(due_from_ms(config, oldest_key_ms))
    if (oldest_ms := (yield from oldest_dirty_ms_in_pieces(log, dirty_from))) is not None:
        moments.add(oldest_ms + config.max_compaction_lag_ms + 1)
    ahead = [now_ms, *[moment for moment in sorted(moments) if now_ms < moment <= MAX_LONG]]
    low, high = 0, len(ahead)
    while low < high:
        middle = (low + high) // 2
        then = yield from dirtiness_in_pieces(log, dirty_from, ahead[middle])
        if then.is_due_under(config):
            high = middle
        else:
            low = middle + 1
    return ahead[low] if low < len(ahead) else None


def due_after_time_outs_in_pieces(
    log: Log, dirty_from: int, now_ms: int, ends: Iterable[tuple[int, int]]
) -> Steps[int | None]:
    """Run `due_at_in_pieces` on a log whose open transactions are aborted at their timeouts.

    Args:
        ends: (first offset, ms since 1970) of the open transactions whose end is known.

    A marker has the time at which it is written, and may therefore roll the active segment.
    """
    rolls, known, opened = next_roll(log), dict(ends), open_transactions(log)
    stages: list[tuple[int, Measurable]] = [(now_ms, log)]
    latest_ms = now_ms
    for at, transaction in enumerate(opened):
        end_ms = known.get(transaction.first_offset)
        if end_ms is None:
            break
        latest_ms = max(latest_ms, end_ms)
        following = opened[at + 1] if at + 1 < len(opened) else None
        if following is None or known.get(following.first_offset, MAX_LONG) > latest_ms:
            is_rolled = rolls is not None and rolls.from_ms is not None and rolls.from_ms <= latest_ms
            stable = log.high_watermark if following is None else following.first_offset
            stages.append((latest_ms, HypotheticalLog(log, is_rolled=is_rolled, last_stable_offset=stable)))
    for (since_ms, supposed), after in zip(stages, [*stages[1:], None], strict=True):
        due_ms = yield from due_at_in_pieces(supposed, dirty_from, since_ms)
        if due_ms is not None and (after is None or due_ms < after[0]):
            return due_ms
    return None


def open_transactions(log: Log) -> list[OpenTransaction]:
    """Return the transactions without a marker, the oldest first; at most the oldest `TRANSACTIONS_MAX`."""
    found = islice(log.producers.open_transactions(), TRANSACTIONS_MAX)
    return [OpenTransaction(producer_id, first_offset) for first_offset, producer_id in found]


def ways_in_pieces(log: Log, dirty_from: int, now_ms: int) -> Steps[tuple[RemedyPlan, ...]]:
    """Return all ways to make a log eligible that is not, the shortest and least first.

    A longer way is included only if it is faster. A marker that is written now may also roll the active segment.
    """
    found: list[RemedyPlan] = []
    for moves in _combinations(log):
        if any(other.eligible_at_ms is None and set(other.moves) < set(moves) for other in found):
            continue
        way = yield from _tried(log, dirty_from, now_ms, moves)
        if way is not None and not any(
            set(other.moves) < set(moves) and other.since_ms <= way.since_ms for other in found
        ):
            found.append(way)
    return tuple(sorted(found, key=lambda way: (way.eligible_at_ms is not None, len(way.moves))))


def _combinations(log: Log) -> Iterator[tuple[RemedyAction, ...]]:
    config = log.config
    needed = () if config.is_compact else (RemedyAction.COMPACT_POLICY,)
    choices = [
        move
        for move, is_possible in (
            (RemedyAction.ROLL, log.segments.active.base_offset < log.log_end_offset),
            (RemedyAction.END_TRANSACTIONS, log.producers.first_unstable_offset is not None),
            (RemedyAction.NO_MIN_LAG, config.min_compaction_lag_ms > 0),
            (RemedyAction.LOWER_RATIO, config.min_cleanable_dirty_ratio > 0),
        )
        if is_possible
    ]
    for count in range(len(choices) + 1):
        for moves in combinations(choices, count):
            if moves or needed:
                yield (*needed, *moves)


def _tried(log: Log, dirty_from: int, now_ms: int, moves: tuple[RemedyAction, ...]) -> Steps[RemedyPlan | None]:
    config = log.config
    if RemedyAction.COMPACT_POLICY in moves:
        config = replace(config, cleanup_policy=(COMPACT,))
    if RemedyAction.NO_MIN_LAG in moves:
        config = replace(config, min_compaction_lag_ms=0)
    if RemedyAction.LOWER_RATIO in moves:
        config = replace(config, min_cleanable_dirty_ratio=0.0)
    is_rolled, stable = RemedyAction.ROLL in moves, None
    if RemedyAction.END_TRANSACTIONS in moves:
        stable, rolls = log.high_watermark, next_roll(log)
        is_rolled = is_rolled or (rolls is not None and rolls.from_ms is not None and rolls.from_ms <= now_ms)
    supposed = HypotheticalLog(log, config=config, is_rolled=is_rolled, last_stable_offset=stable)
    due_ms = yield from due_at_in_pieces(supposed, dirty_from, now_ms)
    if due_ms is None:
        return None
    ratio = None
    if RemedyAction.LOWER_RATIO in moves:
        then = yield from dirtiness_in_pieces(supposed, dirty_from, due_ms)
        ratio = _below(then.dirty_ratio)
        if ratio >= log.config.min_cleanable_dirty_ratio:
            return None  # the ratio is not what prevents a pass
    return RemedyPlan(moves=moves, eligible_at_ms=due_ms if due_ms > now_ms else None, min_cleanable_dirty_ratio=ratio)


def _below(ratio: float) -> float:
    """Return a round number slightly below `ratio`; 0 if there is none."""
    for digits in (10, 100, 1000):
        if 0 < (found := floor(ratio * digits) / digits) < ratio:
            return found
    return 0.0
