"""Choice of the segments that a log may delete, by log start offset, size and age.

Called by `Log.begin_deletion`: every `log.retention.check.interval.ms` for logs without compaction, after
each round of the cleaner for those with it. It only decides, and changes neither files nor the segment list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest

from ..disk.files import WouldWaitError
from ..segment.segment import LogSegment
from .log_reader import LogReader

SEGMENTS_AT_ONCE = 500
"""Largest number of segments that one step deletes: to choose and release them takes a few milliseconds."""


def deletable_segments(
    log: LogReader, now_ms: int, *, at_once: bool = False, at_most: int | None = None
) -> list[LogSegment]:
    """List the oldest segments that may be deleted, in order; possibly all of them (then the log must roll first).

    Under every policy, segments wholly below the log start offset may be deleted; `delete` adds size, then age:

    - below log start: the *next* segment begins at or below the log start offset;
    - size: while the rest, without this segment, still has `retention.bytes` or more;
    - age: while the segment's largest timestamp (the file's modification time, if no record has one) is more than
      `retention.ms` old.

    Each rule stops at the first segment that it keeps. Never deleted: a segment that reaches above the high watermark, and
    an empty active segment.

    Args:
        at_once: Do not wait for the disk.
        at_most: Largest number of segments to return.

    Raises:
        WouldWaitError: Only if `at_once`: a segment's age has to be read.

    Source: cleaner-independent part of Kafka's UnifiedLog.deleteOldSegments; KIP-107 for the log start offset.
    """
    remaining: Sequence[LogSegment] = tuple(log.segments)
    config = log.config
    counts_bytes = config.is_delete and config.retention_bytes >= 0
    size_bytes = log.size_bytes if counts_bytes else 0
    deletable: list[LogSegment] = []

    def take_while(condition: Callable[[LogSegment, LogSegment | None], bool]) -> None:
        nonlocal remaining, size_bytes
        taken = 0
        for segment, following in zip_longest(remaining, remaining[1:]):
            upper_bound = log.log_end_offset if following is None else following.base_offset
            empty_active = following is None and segment.size_bytes == 0
            if len(deletable) == at_most:
                break
            if empty_active or upper_bound > log.high_watermark or not condition(segment, following):
                break
            deletable.append(segment)
            if counts_bytes:
                size_bytes -= segment.size_bytes
            taken += 1
        remaining = remaining[taken:]

    log_start_offset = log.log_start_offset
    take_while(lambda _, following: following is not None and following.base_offset <= log_start_offset)
    if config.is_delete:
        if counts_bytes:
            take_while(lambda segment, _: size_bytes - segment.size_bytes >= config.retention_bytes)
        if config.retention_ms >= 0:

            def is_old(segment: LogSegment, _: LogSegment | None) -> bool:
                if at_once and not segment.is_age_known:
                    raise WouldWaitError(partial(_learn_ages, remaining, now_ms - config.retention_ms))
                return now_ms - segment.largest_timestamp_ms > config.retention_ms

            take_while(is_old)
    return deletable


def may_have_deletable(log: LogReader, now_ms: int) -> bool:
    """Whether `deletable_segments` may find any, judged by the oldest segment alone, with which each of the rules begins.

    A fast check for callers with thousands of logs, most of which have nothing to delete. Reads no file and raises nothing:
    `deletable_segments` does both.
    """
    if log.failure is not None:
        return False  # reported when it happened
    config, first = log.config, log.segments.first
    second = log.segments.higher(first.base_offset)
    if second is None and first.size_bytes == 0:
        return False
    if (log.log_end_offset if second is None else second.base_offset) > log.high_watermark:
        return False
    if second is not None and second.base_offset <= log.log_start_offset:
        return True
    if not config.is_delete:
        return False
    if config.retention_bytes >= 0 and log.size_bytes - first.size_bytes >= config.retention_bytes:
        return True
    if config.retention_ms < 0:
        return False
    if not first.is_age_known or first.max_timestamp_ms < 0:
        return True
    return now_ms - first.max_timestamp_ms > config.retention_ms


def is_active_aged(log: LogReader, now_ms: int) -> bool:
    """Whether all records of the active segment have reached `ottla.key.retention.ms`: a pass removes them once it is closed.

    Without a roll, the keys of a log without appends would stay for ever. True also if the segment has not been read since the
    start: see `is_ready`.
    """
    config, active = log.config, log.segments.active
    if config.ottla_key_retention_ms < 0 or not config.is_compact or log.failure is not None or not active.size_bytes:
        return False
    return not active.is_ready or 0 <= active.max_timestamp_ms <= config.aged_up_to_ms(now_ms)


def _learn_ages(segments: Sequence[LogSegment], before_ms: int) -> None:
    """Read the largest timestamps of the segments older than `before_ms`, and of the next one. In any thread."""
    for segment in segments:
        segment.learn_age()
        if segment.largest_timestamp_ms >= before_ms:
            return
