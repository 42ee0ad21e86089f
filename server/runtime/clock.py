"""The broker's two times, which tests and the admin surface can move.

    now_ms()       wall time: what is stored, or compared with what is stored (timestamps of records, offsets, transactions)
    elapsed_ms()   time that only passes: every deadline, time-out and interval

Somebody may set the wall clock, in either direction: then nothing that is waited for comes earlier or later, and nothing
that lives is ended. Everything below the server takes these times as arguments; everything in the server asks this clock.
Waiting goes through `sleep` and `sleep_until`, so a moved clock also ends the waits it makes due. What belongs to one
client's connection (how long a fetch waits, how long a connection may be idle) goes by Trio's clock and cannot be moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import trio


def wall_time_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def monotonic_time_ms() -> int:
    """Milliseconds since some moment in the past, which nobody can set."""
    return time.monotonic_ns() // 1_000_000


class Clock:
    """Both readings may be taken in any thread, the rest is for the Trio thread.

    Args:
        wall: Gives the wall time in ms.
        monotonic: Gives the time that passes in ms; tests with Trio's virtual clock pass one that follows
            `trio.current_time()`.
    """

    def __init__(
        self, wall: Callable[[], int] = wall_time_ms, monotonic: Callable[[], int] = monotonic_time_ms
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._wall_offset_ms = 0
        self._elapsed_offset_ms = 0
        self._moved = trio.Event()

    def now_ms(self) -> int:
        """Milliseconds since 1970, including every move so far. May go back."""
        return self._wall() + self._wall_offset_ms

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment in the past, including every move ahead. Never goes back."""
        return self._monotonic() + self._elapsed_offset_ms

    def wall_at(self, due_ms: int) -> int:
        """The wall time at `due_ms` of elapsed time, unless somebody sets the clock before: for people to read."""
        return self.now_ms() + due_ms - self.elapsed_ms()

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` more have passed, and wake everyone who waits.

        Time that has passed cannot be taken back: a negative `by_ms` sets back the wall time alone, as an operator may,
        and what was due at a certain moment still is.
        """
        self._wall_offset_ms += by_ms
        self._elapsed_offset_ms += max(0, by_ms)
        self._moved.set()
        self._moved = trio.Event()

    @property
    def ahead_ms(self) -> int:
        """How far the wall time has been moved, in all."""
        return self._wall_offset_ms

    def begin_anew(self, ahead_ms: int = 0) -> None:
        """Take every move back, and be so far ahead of the wall clock. Only while nothing waits for a moment of elapsed time."""
        self._wall_offset_ms, self._elapsed_offset_ms = ahead_ms, 0
        self._moved.set()
        self._moved = trio.Event()

    async def sleep(self, for_ms: int) -> None:
        """Return once `for_ms` have passed, or the clock was moved by as much."""
        await self.sleep_until(self.elapsed_ms() + for_ms)

    async def sleep_until(self, due_ms: int) -> None:
        """Return once `elapsed_ms() >= due_ms`, whether time passed or the clock was moved."""
        while (left_ms := due_ms - self.elapsed_ms()) > 0:
            moved = self._moved
            with trio.move_on_after(left_ms / 1000):
                await moved.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
