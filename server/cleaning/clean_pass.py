"""One clean pass in a worker thread: throttled, timed, and stopped early on request."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from traceback import clear_frames
from typing import TYPE_CHECKING

import trio
import trio.from_thread

from ...storage.cleaning.dirtiness import LogToClean, is_any_reached
from ...storage.disk.files import AbortedError
from ...storage.segment.segment import LogSegment
from ..runtime.clock import Clock
from ..runtime.meters import Meter
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

    return is_any_reached(chosen.segments, now_ms, checkpoint)


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


PERIOD_S = 0.3


class Throttler:
    """Throttle to `log.cleaner.io.max.bytes.per.second`: the reads and writes of all cleaner threads together.

        period      |<-- more than 300 ms -->|<-- wait -->|
        observed     10 MB                                 0, and what was observed during the wait
                                             ^ at 20 MB/s: 10 / 20 - 0.3 = 0.2 s

    Bursts within a period are not delayed. All threads share one wait, which ends early when the limit changes. Source:
    Apache Kafka's Throttler, except that a thread which must stop does not wait first.

    One per broker. `observe` and `hold` may be called in any thread, the rest on Trio's. Times are in seconds.
    """

    def __init__(self, limit_bytes_per_s: float) -> None:
        self.meter = Meter()
        """All bytes, delayed or not."""
        self._limit_bytes_per_s = limit_bytes_per_s
        self._guard = threading.Lock()
        self._period_start_s = -math.inf
        """Start of the present period; in the future during a wait."""
        self._observed_bytes = 0
        self._woken = trio.Event()

    def observe(self, moved_bytes: int, now_s: float) -> float:
        """Count bytes that were just read or written; return how long the thread must wait, 0 for not at all."""
        with self._guard:
            self._observed_bytes += moved_bytes
            elapsed_s = now_s - self._period_start_s
            if elapsed_s < 0:
                return -elapsed_s
            if elapsed_s <= PERIOD_S or not self._observed_bytes:
                return 0.0
            wanted_s = self._observed_bytes / self._limit_bytes_per_s if self._limit_bytes_per_s else math.inf
            wait_s = max(0.0, wanted_s - elapsed_s)
            self._period_start_s = now_s + wait_s
            self._observed_bytes = 0
            return wait_s

    def set_limit(self, limit_bytes_per_s: float, now_s: float) -> None:
        """Change the limit. A wait in progress ends, unless the limit is the same."""
        with self._guard:
            if limit_bytes_per_s == self._limit_bytes_per_s:
                return
            self._limit_bytes_per_s = limit_bytes_per_s
            self._period_start_s = min(self._period_start_s, now_s)
        self.wake()

    def wake(self) -> None:
        """Let every waiting thread check whether it must stop; the others wait again with their next bytes."""
        self._woken.set()
        self._woken = trio.Event()

    def hold(self, moved_bytes: int, now_s: Callable[[], float], must_stop: Callable[[], bool]) -> float:
        """Call `observe`, and wait on Trio's clock; for a worker thread of Trio. Return the seconds waited."""
        begun_s = now_s()
        self.meter.mark(moved_bytes, begun_s)
        wait_s = self.observe(moved_bytes, begun_s)
        if not wait_s:
            return 0.0
        trio.from_thread.run(self._wait, wait_s, must_stop)
        return now_s() - begun_s

    async def _wait(self, seconds: float, must_stop: Callable[[], bool]) -> None:
        if not must_stop():
            with trio.move_on_after(seconds):
                await self._woken.wait()
