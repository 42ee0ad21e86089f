"""The picture of one log from what is in memory: no file is read.

Asked each second about hundreds of logs on the thread that owns them, one of which may have tens of thousands of segments: in
pieces, as `cleaning.dirtiness` has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..cleaning.dirtiness import SEGMENTS_AT_ONCE
from ..cleaning.eligibility import Eligibility
from ..logs.log import Log
from ..steps import Steps
from .log_picture import Bar, Horizon, LogPicture, Part, PassPicture, RunningPass

BARS_MAX = 240
"""More would be narrower than a pixel of a narrow screen, or near that."""


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
        bars_max: Where it has more segments, neighbours of one part go together: about so many bars, and never one more than a
            part has segments.
    """
    segments, log_end = list(log.segments), log.log_end_offset
    bars: list[Bar] = []
    for at in range(0, len(segments), SEGMENTS_AT_ONCE):
        if at:
            yield
        following = segments[at + 1 : at + 1 + SEGMENTS_AT_ONCE]
        ends = [each.base_offset for each in following]
        ends += [log_end] * (at + SEGMENTS_AT_ONCE >= len(segments))
        bars += [
            Bar(
                part=_part(each.base_offset, end, found, is_active=each is segments[-1]),
                base_offset=each.base_offset,
                end_offset=max(end, each.base_offset),
                size_bytes=each.size_bytes,
            )
            for each, end in zip(segments[at : at + SEGMENTS_AT_ONCE], ends, strict=True)
        ]
    return LogPicture(
        topic=log.topic_partition.topic,
        partition=log.topic_partition.partition,
        cleanup_policy=found.cleanup_policy,
        bars=bundled(bars, bars_max),
        segments=len(bars),
        size_bytes=sum(bar.size_bytes for bar in bars),
        log_start_offset=log.log_start_offset,
        first_dirty_offset=found.first_dirty_offset,
        upper_offset=found.upper_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        bound_by=found.bound_by,
        last_stable_offset=log.last_stable_offset,
        high_watermark=log.high_watermark,
        log_end_offset=log_end,
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


def _part(base_offset: int, end_offset: int, found: Eligibility, *, is_active: bool) -> Part:
    if is_active:
        return Part.ACTIVE
    if "compact" not in found.cleanup_policy:
        return Part.CLOSED
    if end_offset <= found.first_dirty_offset:
        return Part.CLEAN
    return Part.DIRTY if base_offset < found.upper_offset else Part.HELD


def bundled(bars: Sequence[Bar], bars_max: int) -> tuple[Bar, ...]:
    """`bars`, where there are more than `bars_max` with neighbours of one part together."""
    if len(bars) <= bars_max:
        return tuple(bars)
    at_once = -(-len(bars) // bars_max)
    return tuple(_bundles(bars, at_once))


def _bundles(bars: Sequence[Bar], at_once: int) -> Iterator[Bar]:
    for part, members in groupby(bars, key=lambda bar: bar.part):
        alike = list(members)
        for at in range(0, len(alike), at_once):
            bundle = alike[at : at + at_once]
            yield Bar(
                part=part,
                base_offset=bundle[0].base_offset,
                end_offset=bundle[-1].end_offset,
                size_bytes=sum(bar.size_bytes for bar in bundle),
                segments=sum(bar.segments for bar in bundle),
            )
