"""A wall clock that the test sets while the broker runs. It follows Trio's clock, which may jump or stand still.

wall = SteppableWall()
clock = Clock(wall, virtual_ms)
wall.step(-HOUR_MS)
"""

from __future__ import annotations

from collections.abc import Callable

import trio

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WALL_STEPS_MS = {"the clock is set ahead": HOUR_MS, "the clock is set back": -HOUR_MS}
"""Clock steps of random tests, in addition to their other actions."""


def virtual_ms() -> int:
    """Return Trio's time."""
    return int(trio.current_time() * 1_000)


class SteppableWall:
    """The wall time of a `Clock`: at first `START_MS` later than the clock that it follows."""

    def __init__(self, goes_by: Callable[[], int] = virtual_ms) -> None:
        self._goes_by = goes_by
        self._ahead_ms = START_MS

    def __call__(self) -> int:
        return self._goes_by() + self._ahead_ms

    def step(self, by_ms: int) -> None:
        """Set the clock ahead, or with a negative number back. Nothing is notified."""
        self._ahead_ms += by_ms
