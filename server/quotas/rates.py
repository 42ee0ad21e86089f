"""How much was used lately, as Apache Kafka measures it: a rate over samples, and a bucket of tokens (KIP-599).

All times are the broker's elapsed time in ms, which tests and people move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

MAX_INT = 2**31 - 1


class Window(NamedTuple):
    """Over what is measured: the present sample and `samples` − 1 whole ones before it."""

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
    """Kafka's `Rate` of a `WindowedSum`.

    Samples begin when something is recorded. One counts until a whole window has passed since the last record in it, so the
    window that is measured over may be longer than `Window` by the part of a sample.
    """

    __slots__ = ("_at", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._at = 0

    def record(self, value: float, window: Window, elapsed_ms: int) -> None:
        """Add an amount, negative to take one back."""
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
        """A second."""
        window_ms = self.window_ms(window, elapsed_ms)
        return sum(sample.total for sample in self._samples) * 1000 / window_ms

    def window_ms(self, window: Window, elapsed_ms: int) -> int:
        """Over how much is measured now."""
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
        """How long until the rate is `bound`, if nothing more is recorded; 0 while it is not above."""
        rate = self.measure(window, elapsed_ms)
        if not rate > bound:
            return 0
        return rounded((rate - bound) / bound * self.window_ms(window, elapsed_ms))


class TokenBucket:
    """Kafka's: `bound` tokens come a second, and at most those of a whole window are kept. It begins full."""

    __slots__ = ("_tokens", "_updated_ms")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._updated_ms = 0

    def tokens(self, bound: float, window: Window, elapsed_ms: int) -> float:
        """How many there are; below 0: exhausted."""
        came = bound * (elapsed_ms - self._updated_ms) / 1000
        self._tokens = min(window.seconds * bound, self._tokens + came)
        self._updated_ms = elapsed_ms
        return self._tokens

    def peek(self, bound: float, window: Window, elapsed_ms: int) -> float:
        """The same for who only reads, and may not know the present bound."""
        return min(window.seconds * bound, self._tokens + bound * (elapsed_ms - self._updated_ms) / 1000)

    def take(self, count: float, bound: float, window: Window, elapsed_ms: int) -> None:
        """Take so many, be they there or not."""
        self._tokens = min(window.seconds * bound, self.tokens(bound, window, elapsed_ms) - count)

    def throttle_ms(self, bound: float, window: Window, elapsed_ms: int) -> int:
        """How long until none is missing any more."""
        tokens = self.tokens(bound, window, elapsed_ms)
        return 0 if tokens >= 0 else rounded(-tokens / bound * 1000)


def rounded(throttle_ms: float) -> int:
    """To whole ms as Java does; what no answer can say becomes the most that one can."""
    return int(min(throttle_ms + 0.5, MAX_INT))


INACTIVE_MS = 3_600_000
SENSORS_MAX = 10_000
"""Each has a dozen samples: 2 KB."""
NAME_CHARS_MAX = 255
"""Of a longer name a digest is kept."""

Key = TypeVar("Key", bound=Hashable)
Sensor = TypeVar("Sensor")


class Sensors(Generic[Key, Sensor]):
    """What was used by whom, of a bounded number of clients: by key, the one that was not used for longest first.

    Client ids are for clients to choose, and may be new with every request. Whoever has not used anything for an hour is forgotten,
    as by Apache Kafka; beyond SENSORS_MAX whoever has not for longest.
    """

    def __init__(self, make: Callable[[], Sensor]) -> None:
        self._make = make
        self._sensors: dict[Key, Sensor] = {}
        self._used_ms: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._sensors)

    def get(self, key: Key, elapsed_ms: int) -> Sensor:
        """That of `key`, made if it is not there; it counts as used now."""
        sensor = self._sensors.pop(key, None)
        if sensor is None:
            sensor = self._make()
            self._make_room(elapsed_ms)
        self._sensors[key] = sensor
        self._used_ms[key] = elapsed_ms
        return sensor

    def items(self) -> Iterator[tuple[Key, Sensor]]:
        """All, the one that was used last first."""
        return iter(list(reversed(self._sensors.items())))

    def keep(self, is_kept: Callable[[Key], bool]) -> None:
        """Forget all others."""
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
    """The name, or of a long one its beginning and a digest: no two names have the same."""
    if len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[:NAME_CHARS_MAX]}…{blake2b(name.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
