"""Sentences of an advice: what a log has that a prediction does not know, and why a goal is not reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..topics.config import LogConfig
from .advising import RESERVE, Candidate, Costs, Miss
from .prediction import DAY_MS
from .simulating import CleanerSettings
from .summary import Summary

_SIZES = {"TB": 10**12, "GB": 10**9, "MB": 10**6, "KB": 10**3}
_TIMES = {"d": DAY_MS, "h": 3_600_000, "m": 60_000, "s": 1_000}
BUSY = 0.5
"""Part of the time of the cleaner's threads up to which passes seldom wait for each other."""
_RESERVED = f" less {100 * RESERVE - 100:.0f} % for errors of the prediction"
FEW_DIRTY_RECORDS = 1_000
"""With fewer records in the dirty part, it says little on how often a key is written."""


def size_text(size_bytes: float) -> str:
    """Format a size with three digits, in units of a thousand."""
    for unit, factor in _SIZES.items():
        if size_bytes >= factor:
            return (
                f"{size_bytes / factor:.3g} {unit}"
                if size_bytes < 1_000 * factor
                else f"{size_bytes / factor:.0f} {unit}"
            )
    return f"{size_bytes:.0f} B"


def time_text(lasted_ms: float | None) -> str | None:
    """Format a duration in the largest unit of which it has two."""
    if lasted_ms is None:
        return None
    for unit, factor in _TIMES.items():
        if lasted_ms >= 2 * factor:
            return f"{lasted_ms / factor:.1f} {unit}"
    return f"{lasted_ms:.0f} ms"


def notes(summaries: Sequence[Summary], config: LogConfig) -> Iterator[str]:
    """Yield sentences on measured logs, for those that a user should know before the numbers."""
    if records := sum(each.future_records for each in summaries):
        yield (
            f"{records} records have a timestamp more than a day ahead. The cleaner takes their segments as young, and retention"
            " as new. They are left out of the writes by time."
        )
    if records := sum(each.untimed_records for each in summaries):
        yield f"{records} records have no timestamp. They are left out of the writes by time."
    if records := sum(each.late_records for each in summaries):
        yield (
            f"{records} records are more than an hour older than a record before them: the clocks of producers jump, or old"
            " records were written later. Predicted times are less certain."
        )
    if opened := [transaction for each in summaries for transaction in each.open_transactions]:
        oldest = min(opened, key=lambda each: each.first_timestamp_ms)
        yield (
            f"{len(opened)} transactions are open, the oldest of producer {oldest.producer_id} from offset"
            f" {oldest.first_offset} on. No clean pass goes beyond it. The simulation ignores it."
        )
    if records := sum(each.keyless_records for each in summaries):
        yield f"{records} records have no key. The next clean pass removes them."
    if unread_bytes := sum(each.unread_bytes for each in summaries):
        yield f"{unread_bytes} bytes at the end of a log are not a whole batch: an append in progress, or damage."
    if (silence_ms := longest_silence_ms(summaries)) >= DAY_MS:
        yield (
            f"Up to {time_text(silence_ms)} passed without a write. A segment ends by a write, so old values of the active"
            " segment stay that long."
        )
    dirty = sum(each.dirty_records for each in summaries)
    if any(each.first_dirty_offset > each.log_start_offset for each in summaries) and dirty < FEW_DIRTY_RECORDS:
        yield (
            f"Only {dirty} records were written since the last clean pass. How often a key is written is uncertain; measure again"
            " before the next pass."
        )
    measured_ms = max(
        (each.buckets[-1].begin_ms + each.bucket_ms - each.buckets[0].begin_ms for each in summaries if each.buckets),
        default=0,
    )
    if 0 < measured_ms < DAY_MS:
        yield f"Only {time_text(measured_ms)} of writes were measured. The prediction repeats them."
    if config.ottla_key_retention_ms >= 0:
        yield f"The simulation ignores ottla.key.retention.ms={config.ottla_key_retention_ms}."


def load_notes(costs: Costs, cleaner: CleanerSettings) -> Iterator[str]:
    """Yield a sentence if the passes of all logs hardly fit into a day: each was simulated as if it were alone."""
    hours = 24 * cleaner.threads
    if costs.thread_hours_per_day > BUSY * hours:
        yield (
            f"The passes of all partitions take {costs.thread_hours_per_day:.1f} hours a day, and {cleaner.threads} cleaner threads of"
            f" a broker have {hours}. If the partitions are on one broker, passes come later than predicted."
        )


def longest_silence_ms(summaries: Sequence[Summary]) -> int:
    """Return the longest time without a write in a log."""
    longest_ms = 0
    for each in summaries:
        for before, bucket in pairwise(each.buckets):
            if bucket.writes <= bucket.records:  # otherwise a clean pass has removed what was written between them
                longest_ms = max(longest_ms, bucket.begin_ms - before.begin_ms - each.bucket_ms)
    return longest_ms


def miss_text(miss: Miss, nearest: Candidate, summaries: Sequence[Summary], scale: float) -> str:
    """Return the sentence on a goal that no settings reach, with the reason.

    Args:
        scale: The size of all logs of the topic, as a multiple of that of these.
    """
    return _MISSES[miss.goal](miss, nearest, summaries, scale)


def _erase_text(miss: Miss, nearest: Candidate, summaries: Sequence[Summary], scale: float) -> str:
    found = f"a superseded value can be read for {time_text(miss.cost)}, the goal is {time_text(miss.limit)}{_RESERVED}"
    silence_ms = longest_silence_ms(summaries)
    if silence_ms > miss.limit:
        return f"{found}: a segment ends by a write, and {time_text(silence_ms)} passed without one"
    passes = nearest.costs.passes_per_day
    if passes and nearest.costs.thread_hours_per_day / 24 > 0.5:
        return f"{found}: one clean pass takes {time_text(nearest.costs.thread_hours_per_day * 3_600_000 / passes)}"
    return (
        f"{found}: the value waits for the end of its segment, then for the pass that is due by max.compaction.lag.ms"
    )


def _disk_text(miss: Miss, nearest: Candidate, summaries: Sequence[Summary], scale: float) -> str:
    found = f"the logs grow to {size_text(miss.cost)}, the goal is {size_text(miss.limit)}{_RESERVED}"
    return f"{found}: {_least_text(summaries, scale)}, and between two passes the writes are added"


def _bootstrap_text(miss: Miss, nearest: Candidate, summaries: Sequence[Summary], scale: float) -> str:
    found = f"a new reader reads {size_text(miss.cost)}, the goal is {size_text(miss.limit)}{_RESERVED}"
    return f"{found}: {_least_text(summaries, scale)}, and between two passes the writes are added"


def _cleaner_text(miss: Miss, nearest: Candidate, summaries: Sequence[Summary], scale: float) -> str:
    found = (
        f"the cleaner reads and writes {size_text(miss.cost)} a second, the goal is {size_text(miss.limit)}{_RESERVED}"
    )
    return f"{found}: each pass reads and writes the whole log, and the other goals or the writes make it due"


def _least_text(summaries: Sequence[Summary], scale: float) -> str:
    return f"the newest values of the keys are {size_text(scale * sum(each.live_bytes for each in summaries))} unpacked"


_MISSES = {
    "erase_within_ms": _erase_text,
    "disk_bytes": _disk_text,
    "bootstrap_bytes": _bootstrap_text,
    "cleaner_bytes_per_s": _cleaner_text,
}
