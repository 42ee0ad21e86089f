"""What begins the next segment of a log, told before it happens: for people who wait for it.

The rule itself is the append's (`log.Log`). A segment rolls with a batch that does not fit it any more, or whose largest
timestamp is more than `segment.ms` (of a compacted log also `max.compaction.lag.ms`) after that of the segment's first
append. Nothing rolls while nobody writes: it is the clients' timestamps that move, not a clock.
"""

from __future__ import annotations

from typing import NamedTuple

from ..topics.config import LogConfig
from ..topics.options import MAX_LONG
from .log_reader import LogReader


class NextRoll(NamedTuple):
    """What ends an active segment that has something in it."""

    from_ms: int | None
    """A record with this timestamp or a later one ends it; None: none does, however late."""
    goes_by_clock: bool
    """Its records have no timestamps: `from_ms` is of the broker's clock, and any record ends it from then on."""
    free_bytes: int
    """What a batch may have that still fits; -1: whatever comes next goes to a new segment."""


def roll_after_ms(config: LogConfig) -> int:
    """How long a segment grows, jitter aside."""
    return min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compact else config.segment_ms


def next_roll(log: LogReader) -> NextRoll | None:
    """What ends the active segment; None while it is empty.

    Raises:
        OSError, CorruptRecordError: After a start its first batch has to be read, and cannot be.
    """
    active = log.segments.active
    if active.size_bytes == 0:
        return None
    first_ms = active.first_batch_timestamp_ms
    begun_ms = first_ms if first_ms >= 0 else active.created_ms
    from_ms = begun_ms + roll_after_ms(log.config) - active.rolling_jitter_ms + 1
    is_full = active.offset_index.is_full or active.time_index.is_full
    return NextRoll(
        from_ms if from_ms <= MAX_LONG else None,
        first_ms < 0,
        -1 if is_full else max(-1, log.config.segment_bytes - active.size_bytes),
    )
