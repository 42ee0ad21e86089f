"""How dirty a compacted log is, and how much of it a clean pass may touch now.

    0            first dirty offset            upper offset                    LEO
    |  clean     |  dirty                      |  not to be cleaned yet        |
    | [segment] [segment] [seg|ment] [segment] | [young or undecided] [active] |

Asked by the cleaner manager about every compacted log of the broker in each round, on the thread that owns the logs.
Source: Apache Kafka's LogCleanerManager; KIP-58 (min lag), KIP-354 (max lag).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from .log import Log
from .producer_state import LastRecord
from .segment import LogSegment


@dataclass(frozen=True, slots=True, eq=False)
class LogToClean:
    """One log as it was when it was measured, and what a pass over it would do."""

    log: Log
    first_dirty_offset: int
    upper_offset: int
    """Base offset of a segment: the first that the pass must not touch."""
    segments: list[LogSegment]
    """Those below `upper_offset`; none is appended to any more. Whoever has run a pass over them empties this."""
    clean_bytes: int
    cleanable_bytes: int
    """The segment that holds the first dirty offset counts in both."""
    max_lag_overdue_ms: int
    """How much longer than `max.compaction.lag.ms` the oldest dirty record has waited; 0: not that long."""
    last_records: Mapping[int, LastRecord] | None = None
    """Where the log's producers were; see `for_worker`."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether a pass is worth it: too dirty (strictly, so a ratio of 1.0 never is), or dirty for too long."""
        return self.cleanable_bytes > 0 and (
            self.max_lag_overdue_ms > 0 or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio
        )

    def for_worker(self, last_records: Mapping[int, LastRecord] | None = None) -> "LogToClean":
        """The same with all that a pass must know of the log's changing state, so that it can run beside appends.

        Args:
            last_records: What the producers said one after the other, each since the measuring; None asks them now. Who has
                written since has a last record that the pass does not reach.
        """
        if last_records is None:
            last_records = self.log.producers.last_records()
        return replace(self, last_records=last_records)


def first_dirty_offset(log: Log, checkpoint: int | None) -> tuple[int, bool]:
    """Where the dirty part begins, and whether the checkpoint is wrong and must be replaced by that.

    A checkpoint below the log start lags behind retention or DeleteRecords. One above the LEO is left over from a
    longer log: then nothing is known to be clean.
    """
    start = log.log_start_offset
    if checkpoint is None:
        return start, False
    if checkpoint < start or checkpoint > log.log_end_offset:
        return start, True
    return checkpoint, False


class BoundBy(StrEnum):
    """What may end the part of a log that can be cleaned now."""

    ACTIVE_SEGMENT = "active_segment"
    OPEN_TRANSACTION = "open_transaction"
    MIN_COMPACTION_LAG = "min_compaction_lag"
    DAMAGE = "damage"
    """The log cannot be measured."""


class Bound(NamedTuple):
    """The end of what may be cleaned, and why it is there."""

    offset: int
    """The first that must stay as it is."""
    by: BoundBy


def find_bound(log: Log, dirty_from: int, now_ms: int) -> Bound:
    """The end of what may be cleaned: undecided transactions, the active segment and young segments stay as they are.

    `min.compaction.lag.ms` works on whole segments, by their largest timestamp; the first young one ends the range.
    """
    found = Bound(log.segments.active.base_offset, BoundBy.ACTIVE_SEGMENT)
    if log.last_stable_offset < found.offset:
        found = Bound(log.last_stable_offset, BoundBy.OPEN_TRANSACTION)
    min_lag_ms = log.config.min_compaction_lag_ms
    if min_lag_ms > 0:
        for segment in log.segments.between(dirty_from, found.offset):
            if segment.largest_timestamp_ms > now_ms - min_lag_ms:
                found = Bound(segment.base_offset, BoundBy.MIN_COMPACTION_LAG)
                break
    return found._replace(offset=max(dirty_from, found.offset))


def measure(log: Log, dirty_from: int, now_ms: int) -> LogToClean:
    """Measure one log whose dirty part begins at `dirty_from`."""
    sealed = log.segments.non_active()
    active_base = log.segments.active.base_offset
    # A pass ends between two segments, never in one.
    uncleanable = min(find_bound(log, dirty_from, now_ms).offset, active_base)
    floor = log.segments.floor(uncleanable)
    upper = uncleanable if floor is None else floor.base_offset
    dirty_floor = log.segments.floor(min(dirty_from, upper))
    dirty_base = upper if dirty_floor is None else dirty_floor.base_offset
    return LogToClean(
        log=log,
        first_dirty_offset=dirty_from,
        upper_offset=upper,
        segments=[segment for segment in sealed if segment.base_offset < upper],
        clean_bytes=sum(segment.size_bytes for segment in log.segments if segment.base_offset < dirty_from),
        cleanable_bytes=sum(segment.size_bytes for segment in sealed if dirty_base <= segment.base_offset < upper),
        max_lag_overdue_ms=_max_lag_overdue_ms(log, dirty_from, now_ms),
    )


def _max_lag_overdue_ms(log: Log, dirty_from: int, now_ms: int) -> int:
    oldest_ms = oldest_dirty_ms(log, dirty_from)
    return 0 if oldest_ms is None else max(0, now_ms - log.config.max_compaction_lag_ms - oldest_ms)


def oldest_dirty_ms(log: Log, dirty_from: int) -> int | None:
    """Since when the dirty part waits, or None: an estimate by each of its segments' first batch.

    Segments that may not be cleaned now count too; the active one does not, nor do batches without a time.
    """
    firsts = (
        segment.first_batch_timestamp_ms
        for segment in log.segments.between(dirty_from, log.segments.active.base_offset)
        if segment.first_batch_timestamp_ms > 0
    )
    return min(firsts, default=None)
