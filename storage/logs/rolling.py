"""What begins the next segment of a log, told before it happens: for people who wait for it.

The rule itself is the append's (`log.Log`). A segment rolls with a batch that does not fit it any more, or whose largest
timestamp is more than `segment.ms` (of a compacted log also `max.compaction.lag.ms`) after that of the segment's first
append. Nothing rolls while nobody writes: it is the clients' timestamps that move, not a clock. But who moves the broker's
clock by hand does not wait for them: then segments roll that have been open for as long by that clock (`open_until_ms`).
"""

from __future__ import annotations

from typing import NamedTuple

from ..disk.files import WouldWaitError
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
    from_ms = begun_ms + log.config.roll_after_ms - active.rolling_jitter_ms + 1
    is_full = active.offset_index.is_full or active.time_index.is_full
    return NextRoll(
        from_ms if from_ms <= MAX_LONG else None,
        first_ms < 0,
        -1 if is_full else max(-1, log.config.segment_bytes - active.size_bytes),
    )


def open_until_ms(log: LogReader, *, at_once: bool = False) -> int | None:
    """The wall time after which the active segment has been open for too long; None while it is empty.

    It is open since it got its first record. Where an earlier run of the broker wrote that, the timestamp of the first batch
    stands for it, or without one the start of this run.

    Args:
        at_once: Others wait for this thread.

    Raises:
        OSError, CorruptRecordError: The first batch has to be read, and cannot be.
        WouldWaitError: Only if `at_once`: it has to be read.
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
