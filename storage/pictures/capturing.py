"""Picture of one log from data in memory: no file is read.

Called each second for hundreds of logs on the thread that owns them, and one may have tens of thousands of segments. So it
works in steps, like `cleaning.dirtiness`.
"""

from __future__ import annotations

from itertools import islice

from ..cleaning.dirtiness import SEGMENTS_AT_ONCE
from ..cleaning.eligibility import Eligibility
from ..logs.log import Log
from ..steps import Steps
from .log_picture import Bar, Horizon, LogPicture, Part, PassPicture, RunningPass

BARS_MAX = 240
"""Largest number of bars; more would be about as narrow as a pixel of a narrow screen."""


def picture_in_pieces(
    log: Log,
    found: Eligibility,
    *,
    passes: int = 0,
    running: RunningPass | None = None,
    last_pass: PassPicture | None = None,
    horizon: Horizon | None = None,
    bars_max: int = BARS_MAX,
) -> Steps[LogPicture]:
    """Take the picture of a log that was assessed just now.

    Args:
        bars_max: Approximate number of bars. If the log has more segments, neighbours of the same part are merged.
    """
    segments, log_end = list(log.segments), log.log_end_offset
    is_compacted, active = "compact" in found.cleanup_policy, segments[-1]
    clean_below, cleaned_below = found.first_dirty_offset, found.upper_offset
    bundles = _Bundles(-(-len(segments) // bars_max))
    following = (each.base_offset for each in islice(segments, 1, None))
    for number, each in enumerate(segments):
        if number % SEGMENTS_AT_ONCE == 0 and number:
            yield
        base = each.base_offset
        end = next(following, log_end)
        if each is active:
            part = Part.ACTIVE
        elif not is_compacted:
            part = Part.CLOSED
        elif end <= clean_below:
            part = Part.CLEAN
        else:
            part = Part.DIRTY if base < cleaned_below else Part.HELD
        bundles.add(part, base, max(end, base), each.size_bytes)
    bars = bundles.all()
    return LogPicture(
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        cleanup_policy=found.cleanup_policy,
        bars=bars,
        segments=len(segments),
        size_bytes=sum(bar.size_bytes for bar in bars),
        log_start_offset=log.log_start_offset,
        first_dirty_offset=found.first_dirty_offset,
        upper_offset=found.upper_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        bound_by=found.bound_by,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log_end,
        counts=log.counts,
        dirty_ratio=found.dirty_ratio,
        min_cleanable_dirty_ratio=found.min_cleanable_dirty_ratio,
        eligible=found.eligible,
        waits_for=found.waits_for,
        explanation=found.explanation,
        eligible_at_ms=found.eligible_at_ms,
        horizon=horizon,
        passes=passes,
        running=running,
        last_pass=last_pass,
    )


class _Bundles:
    """Collects bars of segments, and merges up to `at_once` neighbours of the same part."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._found: list[Bar] = []
        self._open: tuple[Part, int, int, int, int] | None = None
        """Part, base and end offset, bytes and segments of the bar that is not in the list yet."""

    def add(self, part: Part, base_offset: int, end_offset: int, size_bytes: int) -> None:
        last = self._open
        if last is not None and last[0] is part and last[4] < self._at_once:
            self._open = (part, last[1], end_offset, last[3] + size_bytes, last[4] + 1)
            return
        self._close()
        self._open = (part, base_offset, end_offset, size_bytes, 1)

    def _close(self) -> None:
        if self._open is not None:
            part, base_offset, end_offset, size_bytes, segments = self._open
            self._found.append(
                Bar(part=part, base_offset=base_offset, end_offset=end_offset, size_bytes=size_bytes, segments=segments)
            )
            self._open = None

    def all(self) -> tuple[Bar, ...]:
        self._close()
        return tuple(self._found)
