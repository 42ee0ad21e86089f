"""Recent use, as Apache Kafka measures it: a rate over samples, and a token bucket (KIP-599).

All times are the broker's elapsed time in ms, which tests and users can move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

MAX_INT = 2**31 - 1


class Window(NamedTuple):
    """Window of a measurement: the present sample and `samples` − 1 whole ones before it."""

    samples: int
    sample_ms: int

    @property
    def seconds(self) -> float:
        return self.samples * self.sample_ms / 1000


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, elapsed_ms: int) -> None:
        self.begin(elapsed_ms)

    def begin(self, elapsed_ms: int) -> None:
        self.start_ms = self.last_ms = elapsed_ms
        self.total = 0.0


class Rate:
    """Rate over a window, as Kafka's `Rate` of a `WindowedSum`.

    A sample begins when a value is recorded. It counts until a whole window has passed since the last value in it, so the
    measured window may be longer than `Window` by a part of a sample.
    """

    __slots__ = ("_at", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._at = 0

    def record(self, value: float, window: Window, elapsed_ms: int) -> None:
        """Add an amount; a negative one subtracts."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(elapsed_ms))
            self._at = 0
        sample = samples[self._at]
        if elapsed_ms - sample.start_ms >= window.sample_ms:
            self._at = (self._at + 1) % (window.samples + 1)
            if self._at >= len(samples):
                self._at = len(samples)
                samples.append(_Sample(elapsed_ms))
            sample = samples[self._at]
            sample.begin(elapsed_ms)
        sample.total += value
        sample.last_ms = elapsed_ms

    def measure(self, window: Window, elapsed_ms: int) -> float:
        """Return the rate per second."""
        window_ms = self.window_ms(window, elapsed_ms)
        return sum(sample.total for sample in self._samples) * 1000 / window_ms

    def window_ms(self, window: Window, elapsed_ms: int) -> int:
        """Return the length of the window that is measured now."""
        expires_ms = window.samples * window.sample_ms
        oldest_ms = elapsed_ms
        for sample in self._samples:
            if elapsed_ms - sample.last_ms >= expires_ms:
                sample.begin(elapsed_ms)
            oldest_ms = min(oldest_ms, sample.start_ms)
        span_ms = elapsed_ms - oldest_ms
        missing = max(0, window.samples - 1 - span_ms // window.sample_ms)
        return max(span_ms + missing * window.sample_ms, 1)

    def throttle_ms(self, bound: float, window: Window, elapsed_ms: int) -> int:
        """Return the time until the rate is `bound`, if nothing more is recorded; 0 if it is not above."""
        rate = self.measure(window, elapsed_ms)
        if not rate > bound:
            return 0
        return rounded((rate - bound) / bound * self.window_ms(window, elapsed_ms))


class TokenBucket:
    """Kafka's token bucket: `bound` tokens are added per second, and at most those of a whole window are kept. It begins
    full."""

    __slots__ = ("_tokens", "_updated_ms")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, bound: float, window: Window, elapsed_ms: int) -> float:
        """Return the number of tokens; below 0: exhausted."""
        came = bound * (elapsed_ms - self._updated_ms) / 1000
        self._tokens = min(window.seconds * bound, self._tokens + came)
        self._updated_ms = elapsed_ms
        return self._tokens

    def peek(self, bound: float, window: Window, elapsed_ms: int) -> float:
        """Return the number of tokens for a reader, which may not know the present bound; changes nothing."""
        return min(window.seconds * bound, self._tokens + bound * (elapsed_ms - self._updated_ms) / 1000)

    def take(self, count: float, bound: float, window: Window, elapsed_ms: int) -> None:
        """Take `count` tokens, even if there are fewer."""
        self._tokens = min(window.seconds * bound, self.tokens(bound, window, elapsed_ms) - count)

    def throttle_ms(self, bound: float, window: Window, elapsed_ms: int) -> int:
        """Return the time until the number of tokens is 0 again."""
        tokens = self.tokens(bound, window, elapsed_ms)
        return 0 if tokens >= 0 else rounded(-tokens / bound * 1000)


def rounded(throttle_ms: float) -> int:
    """Round to whole ms as Java does; at most the largest value of a response."""
    return int(min(throttle_ms + 0.5, MAX_INT))


INACTIVE_MS = 3_600_000
SENSORS_MAX = 10_000
"""Largest number of sensors. Each has a dozen samples: 2 KB."""
NAME_CHARS_MAX = 255
"""Longest name that is kept; a longer one is replaced by a digest."""

Key = TypeVar("Key", bound=Hashable)
Sensor = TypeVar("Sensor")


class Sensors(Generic[Key, Sensor]):
    """Sensors of a bounded number of clients: by key, the least recently used first.

    Clients choose their client ids, which may be new with every request. A sensor without use for an hour is dropped, as in
    Apache Kafka; beyond SENSORS_MAX the least recently used one.
    """

    def __init__(self, make: Callable[[], Sensor]) -> None:
        self._make = make
        self._sensors: dict[Key, Sensor] = {}
        self._used_ms: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._sensors)

    def get(self, key: Key, elapsed_ms: int) -> Sensor:
        """Return the sensor of `key`, made if missing; it counts as used now."""
        sensor = self._sensors.pop(key, None)
        if sensor is None:
            sensor = self._make()
            self._make_room(elapsed_ms)
        self._sensors[key] = sensor
        self._used_ms[key] = elapsed_ms
        return sensor

    def items(self) -> Iterator[tuple[Key, Sensor]]:
        """Yield all sensors, the most recently used first."""
        return iter(list(reversed(self._sensors.items())))

    def keep(self, is_kept: Callable[[Key], bool]) -> None:
        """Drop all other sensors."""
        for key in [key for key in self._sensors if not is_kept(key)]:
            self._forget(key)

    def _make_room(self, elapsed_ms: int) -> None:
        while self._sensors:
            oldest = next(iter(self._sensors))
            if len(self._sensors) < SENSORS_MAX and elapsed_ms - self._used_ms[oldest] < INACTIVE_MS:
                return
            self._forget(oldest)

    def _forget(self, key: Key) -> None:
        del self._sensors[key], self._used_ms[key]


def bounded(name: str) -> str:
    """Return the name; a long one as its beginning and a digest, so that names stay distinct."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[:NAME_CHARS_MAX]}…{blake2b(name.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
