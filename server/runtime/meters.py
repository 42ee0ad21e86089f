"""Counters with rates and durations, for the metrics that Apache Kafka keeps as meters and timers."""

from __future__ import annotations

import math
import threading

_TICK_S = 5.0
_ALPHA = 1 - math.exp(-_TICK_S / 60)


class Meter:
    """A count, and its rate per second in about the last minute. For any thread.

    The rate is an average that forgets exponentially, moved every 5 s, as that of Kafka's library is.
    """

    def __init__(self) -> None:
        self.count = 0
        self._guard = threading.Lock()
        self._rate_per_s: float | None = None
        self._since_tick = 0
        self._ticked_s: float | None = None

    def mark(self, amount: int, now_s: float) -> None:
        """Count `amount` more. `now_s` is the time of a clock that does not go back."""
        with self._guard:
            self._tick(now_s)
            self.count += amount
            self._since_tick += amount

    def one_minute_rate(self, now_s: float) -> float:
        """Return the rate per second; 0 in the first 5 s."""
        with self._guard:
            self._tick(now_s)
            return self._rate_per_s or 0.0

    def _tick(self, now_s: float) -> None:
        if self._ticked_s is None:
            self._ticked_s = now_s
        ticks = int((now_s - self._ticked_s) // _TICK_S)
        if ticks <= 0:
            return
        present = self._since_tick / _TICK_S
        rate = present if self._rate_per_s is None else self._rate_per_s + _ALPHA * (present - self._rate_per_s)
        self._rate_per_s = rate * (1 - _ALPHA) ** (ticks - 1)
        self._since_tick = 0
        self._ticked_s += ticks * _TICK_S


class Timer:
    """Number and duration of operations. For one thread."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0
        self.max_ms = 0.0

    def update(self, seconds: float) -> None:
        """Count one more operation of this duration."""
        self.count += 1
        self.total_ms += seconds * 1000
        self.max_ms = max(self.max_ms, seconds * 1000)

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.count if self.count else 0.0
