"""Holds the cleaner to `log.cleaner.io.max.bytes.per.second`: what all its threads read and write together.

    period      |<-- more than 300 ms -->|<-- wait -->|
    observed     10 MB                                 0, and what was observed during the wait
                                         ^ at 20 MB/s: 10 / 20 - 0.3 = 0.2 s

Bursts within a period are not held back. A wait is one for all threads, and ends early when the limit changes.
Source: Apache Kafka's Throttler, but that a thread which must stop does not wait first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import trio
import trio.from_thread

from ..runtime.meters import Meter

PERIOD_S = 0.3


class Throttler:
    """One a broker. `observe` and `hold` may be called in any thread, the rest on Trio's. Times are in seconds."""

    def __init__(self, limit_bytes_per_s: float) -> None:
        self.meter = Meter()
        """Bytes, whether or not they had to wait."""
        self._limit_bytes_per_s = limit_bytes_per_s
        self._guard = threading.Lock()
        self._period_start_s = -math.inf
        """Lies ahead while everybody waits."""
        self._observed_bytes = 0
        self._woken = trio.Event()

    def observe(self, moved_bytes: int, now_s: float) -> float:
        """Count bytes that were just read or written; returns how long the thread is to wait, 0 for not at all."""
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
        """Go on with another limit; a wait that is under way is over, unless it is the same one."""
        with self._guard:
            if limit_bytes_per_s == self._limit_bytes_per_s:
                return
            self._limit_bytes_per_s = limit_bytes_per_s
            self._period_start_s = min(self._period_start_s, now_s)
        self.wake()

    def wake(self) -> None:
        """Let every waiting thread look whether it must stop; those that need not, wait on at their next bytes."""
        self._woken.set()
        self._woken = trio.Event()

    def hold(self, moved_bytes: int, now_s: Callable[[], float], must_stop: Callable[[], bool]) -> float:
        """In a worker thread of Trio's: `observe`, and wait on Trio's clock. Returns the seconds waited."""
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
