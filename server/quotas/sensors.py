"""What was used by whom, of a bounded number of clients: client ids are for clients to choose, and may be new with every request.

Whoever has not used anything for an hour is forgotten, as by Apache Kafka; beyond SENSORS_MAX whoever has not for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from hashlib import blake2b
from typing import Generic, TypeVar

INACTIVE_MS = 3_600_000
SENSORS_MAX = 10_000
"""Each has a dozen samples: 2 KB."""
NAME_CHARS_MAX = 255
"""Of a longer name a digest is kept."""

Key = TypeVar("Key", bound=Hashable)
Sensor = TypeVar("Sensor")


class Sensors(Generic[Key, Sensor]):
    """By key, the one that was not used for longest first."""

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
