"""The broker's one clock: wall time that tests and the admin surface can move.

Everything below the server takes `now_ms` as an argument; everything in the server asks this
clock. Waiting goes through `sleep_until`, so a moved clock also ends the waits it makes due.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio


def wall_time_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Clock:
    """Milliseconds since the epoch, as the broker sees them.

    Args:
        source: Gives the present time in ms. The default is the wall clock; tests with Trio's
            virtual clock pass one that follows `trio.current_time()`.
    """

    def __init__(self, source: Callable[[], int] = wall_time_ms) -> None:
        self._source = source
        self._offset_ms = 0
        self._moved = trio.Event()

    def now_ms(self) -> int:
        """The present time in ms, including every move so far."""
        return self._source() + self._offset_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms` (negative moves it back) and wake everyone who waits on it.

        Must be called on the Trio thread.
        """
        self._offset_ms += by_ms
        self._moved.set()
        self._moved = trio.Event()

    async def sleep_until(self, due_ms: int) -> None:
        """Return once `now_ms() >= due_ms`, whether time passed or the clock was moved."""
        while (left_ms := due_ms - self.now_ms()) > 0:
            moved = self._moved
            with trio.move_on_after(left_ms / 1000):
                await moved.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
