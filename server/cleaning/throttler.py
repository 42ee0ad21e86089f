"""Throttle of the cleaner threads: the observed rate, and the time that a thread must wait."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import trio
import trio.from_thread

from ..runtime.meters import Meter

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
