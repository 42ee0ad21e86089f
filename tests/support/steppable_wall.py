"""A wall clock that somebody sets while the broker runs; it goes by Trio's clock, which may jump.

wall = SteppableWall()
clock = Clock(wall, virtual_ms)
wall.step(-HOUR_MS)
"""

from __future__ import annotations

import trio

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WALL_STEPS_MS = {"the clock is set ahead": HOUR_MS, "the clock is set back": -HOUR_MS}
"""What random tests do beside all else."""


def virtual_ms() -> int:
    """Trio's time."""
    return int(trio.current_time() * 1_000)


class SteppableWall:
    """The wall time of a `Clock`: at first `START_MS` later than Trio's."""

    def __init__(self) -> None:
        self._ahead_ms = START_MS

    def __call__(self) -> int:
        return virtual_ms() + self._ahead_ms

    def step(self, by_ms: int) -> None:
        """Set it ahead, or with a negative number back. Nobody is told."""
        self._ahead_ms += by_ms
