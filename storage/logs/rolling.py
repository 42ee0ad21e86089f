"""Prediction of when a log begins its next segment, for users who wait for that.

The rule itself is in the append (`log.Log`). A segment rolls with a batch that no longer fits, or whose largest timestamp is
more than `segment.ms` (in a compacted log also `max.compaction.lag.ms`) after that of the segment's first append. Without
writes nothing rolls, as the rule compares the clients' timestamps and no clock. But when a user moves the broker's clock by
hand, the segments roll that have been open for that time by this clock (`open_until_ms`).
"""

from __future__ import annotations

from typing import NamedTuple

from ..disk.files import WouldWaitError
from ..topics.options import MAX_LONG
from .log_reader import LogReader


class NextRoll(NamedTuple):
    """Conditions that end an active segment which is not empty."""

    from_ms: int | None
    """Timestamp from which on a record ends the segment; None: no timestamp does."""
    goes_by_clock: bool
    """Whether its records have no timestamps: `from_ms` is a time of the broker's clock, and any record ends it then."""
    free_bytes: int
    """Largest batch that still fits; -1: the next batch goes to a new segment, whatever its size."""


def next_roll(log: LogReader) -> NextRoll | None:
    """Predict the end of the active segment; None while it is empty.

    Raises:
        OSError, CorruptRecordError: The first batch cannot be read, which is necessary after a start.
    """
    active = log.segments.active
    if active.size_bytes == 0:
        return None
    first_ms = active.first_batch_timestamp_ms
    begun_ms = first_ms if first_ms >= 0 else active.created_ms
    from_ms = begun_ms + log.config.roll_after_ms - active.rolling_jitter_ms + 1
    is_full = active.offset_index.is_full or active.time_index.is_full
    return NextRoll(
        from_ms if from_ms <= MAX_LONG else None,
        first_ms < 0,
        -1 if is_full else max(-1, log.config.segment_bytes - active.size_bytes),
    )


def open_until_ms(log: LogReader, *, at_once: bool = False) -> int | None:
    """Return the wall time after which the active segment has been open for too long; None while it is empty.

    A segment is open since its first record was appended. If an earlier run of the broker did that, the timestamp of the
    first batch is used instead, or without one the start of this run.

    Args:
        at_once: Do not wait for the disk.

    Raises:
        OSError, CorruptRecordError: The first batch cannot be read.
        WouldWaitError: Only if `at_once`: the first batch has to be read.
    """
    active = log.segments.active
    if active.size_bytes == 0:
        return None
    since_ms = active.first_append_ms
    if since_ms is None:
        if at_once and not active.is_ready:
            raise WouldWaitError(active.get_ready)
        first_ms = active.first_batch_timestamp_ms
        since_ms = first_ms if first_ms >= 0 else active.created_ms
    return since_ms + log.config.roll_after_ms - active.rolling_jitter_ms
