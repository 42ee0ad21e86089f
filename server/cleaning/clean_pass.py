"""One clean pass in a worker thread: throttled, timed, and stopped early on request."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from traceback import clear_frames
from typing import TYPE_CHECKING

import trio.from_thread

from ...storage.cleaning.dirtiness import LogToClean, is_any_reached
from ...storage.disk.files import AbortedError
from ...storage.segment.segment import LogSegment
from ..runtime.clock import Clock
from .throttler import Throttler
from .watched import ActivePass

# The cleaner itself is imported when the first log needs it: most short-lived brokers never clean.
if TYPE_CHECKING:
    from ...storage.cleaning.cleaner import Cleaner, CleanStats

log = logging.getLogger("ottla.cleaner")


def clean(
    cleaner: Cleaner,
    chosen: LogToClean,
    *,
    clock: Clock,
    now_s: Callable[[], float],
    throttler: Throttler,
    must_stop: Callable[[], bool],
    watched: ActivePass,
) -> tuple[int, CleanStats]:
    """Run a pass; for a worker thread of Trio.

    The replaced segments are released in this thread: a file that was deleted during the pass is freed when its last
    descriptor is closed, which takes longer the larger it is.

    Args:
        chosen: Has no segments, and no last records, after the pass.
        clock: The broker's, for delete horizons and the removal of old segments.
        now_s: Trio's time, as a function that any thread may call.
        must_stop: Whether the pass must stop; called in this thread and in Trio's.
        watched: Receives the progress, and in the end the result.

    Returns:
        As `Cleaner.clean`, with the three times filled in.

    Raises:
        AbortedError: `must_stop` returned true.
        Others: as `Cleaner.clean`.
    """
    from ...storage.filter.offset_map import SECRET_BYTES

    begun_s = map_built_s = now_s()
    throttled_s = 0.0

    def swap(new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        chosen.log.prepare_swap(new, old)
        # Trio's thread drops the function after this thread has its answer, so the function must not hold the old segments.
        swapped = [(new, old)]
        trio.from_thread.run_sync(lambda: chosen.log.commit_swap(*swapped.pop(), clock.elapsed_ms()))

    def checkpoint(moved_bytes: int) -> None:
        nonlocal throttled_s
        throttled_s += throttler.hold(moved_bytes, now_s, must_stop)
        if must_stop():
            raise AbortedError

    def on_map_built() -> None:
        nonlocal map_built_s
        map_built_s = now_s()

    try:
        end_offset, stats = cleaner.clean(
            chosen,
            clock.now_ms(),
            secret=os.urandom(SECRET_BYTES),
            swap=swap,
            checkpoint=checkpoint,
            on_map_built=on_map_built,
            progress=watched.progress,
        )
    except BaseException as error:
        clear_frames(error.__traceback__)
        raise
    finally:
        chosen.segments.clear()
        last_records = chosen.last_records
        while last_records:  # One at a time: deleting hundreds of thousands at once would block all threads.
            last_records.popitem()
    stats.seconds = now_s() - begun_s
    stats.map_seconds = map_built_s - begun_s
    stats.throttled_seconds = throttled_s
    watched.complete(end_offset, stats, clock.now_ms())
    return end_offset, stats


def is_worth_it(chosen: LogToClean, now_ms: int, must_stop: Callable[[], bool]) -> bool:
    """Return whether a pass over a log without dirty records would remove anything.

    In a worker thread; errors as of `clean`.
    """

    def checkpoint() -> None:
        if must_stop():
            raise AbortedError

    aged_up_to_ms = chosen.log.config.aged_up_to_ms(now_ms)
    return is_any_reached(chosen.segments, now_ms, checkpoint, aged_up_to_ms=aged_up_to_ms)


def report(chosen: LogToClean, end_offset: int, stats: CleanStats) -> None:
    """Write the log line of a pass."""
    log.info(
        "cleaned %s from %d to %d in %.2f s (map %.2f s, throttled %.2f s): %d -> %d bytes, %d -> %d records (removed: %s),"
        " %d -> %d segments; map: %d bytes read, %d keys of %d records, %.1f %% full",
        chosen.log.topic_partition,
        chosen.first_dirty_offset,
        end_offset,
        stats.seconds,
        stats.map_seconds,
        stats.throttled_seconds,
        stats.bytes_read,
        stats.bytes_written,
        stats.records_read,
        stats.records_written,
        ", ".join(f"{count} {reason}" for reason, count in asdict(stats.removed).items()),
        stats.segments_before,
        stats.segments_after,
        stats.map_bytes_read,
        stats.map_entry_count,
        stats.map_record_count,
        100 * stats.map_utilization,
    )
