"""The broker's clock with two times, which tests and the admin API can move.

    now_ms()       wall time: what is stored, or compared with what is stored (timestamps of records, offsets, transactions)
    elapsed_ms()   time that only passes: every deadline, time-out and interval

The system's wall clock may be set, in either direction. That changes no wait, and ends no session. Everything below the server
takes these times as arguments; everything in the server asks this clock. Waiting goes through `sleep` and `sleep_until`, so a
moved clock also ends the waits it makes due. Waits of one client's connection (of a fetch, of an idle connection) use Trio's
clock and cannot be moved.

A frozen clock stops both readings: a waiting task continues when the clock is moved or unfrozen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING

import trio
import trio.lowlevel

if TYPE_CHECKING:
    from datetime import datetime, timedelta

NOW_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, the limit of printable dates."""


def wall_time_ms() -> int:
    """Return Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def monotonic_time_ms() -> int:
    """Return milliseconds since an arbitrary moment in the past; this time cannot be set."""
    return time.monotonic_ns() // 1_000_000


def duration_ms(
    by: timedelta | None, *, days: float, hours: float, minutes: float, seconds: float, milliseconds: float
) -> int:
    """Add up all of these durations, rounded down to a millisecond.

    Raises:
        TypeError: `by` is not a timedelta.
        OverflowError: More than the largest `timedelta`, three million years.
    """
    from datetime import timedelta  # most brokers never print a time

    if by is not None and not isinstance(by, timedelta):
        raise TypeError(
            f"advance: expected a timedelta, or days=, hours=, minutes=, seconds=, milliseconds=, found {by!r}"
        )
    whole = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    return (whole + (by or timedelta())) // timedelta(milliseconds=1)


def moment_ms(moment: datetime | int) -> int:
    """Return milliseconds since 1970, rounded down.

    Raises:
        TypeError: Neither a number of milliseconds, nor a datetime with a time zone.
    """
    from datetime import datetime, timedelta

    if isinstance(moment, int):
        return moment
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise TypeError(f"set: expected a datetime with a time zone, or milliseconds since 1970, found {moment!r}")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def datetime_of(now_ms: int) -> datetime:
    """Return a moment as a datetime in UTC."""
    from datetime import datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the two readings are computed. One immutable value, as a thread may read the clock while it is moved."""

    wall_offset_ms: int = 0
    elapsed_offset_ms: int = 0
    frozen: tuple[int, int] | None = None
    """Both readings, while the clock is frozen."""


class Clock:
    """The clock of one broker. Any thread may read it; everything else is for Trio's thread.

    Args:
        wall: Returns the wall time in ms.
        monotonic: Returns the elapsed time in ms; tests with Trio's virtual clock pass one that follows
            `trio.current_time()`.
    """

    def __init__(
        self, wall: Callable[[], int] = wall_time_ms, monotonic: Callable[[], int] = monotonic_time_ms
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._reading = _Reading()
        self._moved = trio.Event()
        self.moving = trio.Lock()
        """Held while a task moves the clock and does more than `advance` does."""
        self._jobs = 0
        self._at_rest = trio.Event()

    def now_ms(self) -> int:
        """Return milliseconds since 1970, including every move so far. May go back."""
        reading, wall = self._reading, self._wall
        return wall() + reading.wall_offset_ms if reading.frozen is None else reading.frozen[0]

    def elapsed_ms(self) -> int:
        """Return milliseconds since an arbitrary moment in the past, including every move forward. Never goes back."""
        reading = self._reading
        return self._monotonic() + reading.elapsed_offset_ms if reading.frozen is None else reading.frozen[1]

    def wall_at(self, due_ms: int) -> int:
        """Return the wall time at `due_ms` of elapsed time, if the clock is not set before then: for display."""
        return self.now_ms() + due_ms - self.elapsed_ms()

    @property
    def is_frozen(self) -> bool:
        return self._reading.frozen is not None

    def now_after(self, by_ms: int) -> int:
        """Return the wall time after a move by `by_ms`."""
        return self.now_ms() + by_ms

    # Moving

    def advance(self, by_ms: int) -> None:
        """Move the clock by `by_ms`, and wake all waiting tasks.

        Elapsed time cannot go back: a negative `by_ms` sets back only the wall time, as an operator may, and waits end as
        before.
        """
        reading, ahead_ms = self._reading, max(0, by_ms)
        frozen = reading.frozen
        if frozen is not None:
            frozen = frozen[0] + by_ms, frozen[1] + ahead_ms
        self._reading = _Reading(reading.wall_offset_ms + by_ms, reading.elapsed_offset_ms + ahead_ms, frozen)
        self._wake()

    def freeze(self) -> None:
        """Stop both readings; does nothing if the clock is frozen."""
        if not self.is_frozen:
            self._reading = replace(self._reading, frozen=(self.now_ms(), self.elapsed_ms()))
            self._wake()  # otherwise a task that waits for a moment would find again and again that it has not come

    def unfreeze(self) -> None:
        """Let the clock continue from its present readings; does nothing if it is not frozen."""
        frozen = self._reading.frozen
        if frozen is not None:
            self._reading = _Reading(frozen[0] - self._wall(), frozen[1] - self._monotonic())
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    @property
    def ahead_ms(self) -> int:
        """How far the wall time has been moved, in total."""
        return self.now_ms() - self._wall() if self.is_frozen else self._reading.wall_offset_ms

    def reset(self, ahead_ms: int = 0) -> None:
        """Undo all moves and unfreeze, then set the wall time ahead by `ahead_ms`. Only while no task waits for a moment of
        elapsed time."""
        self._reading = _Reading(wall_offset_ms=ahead_ms)
        self._wake()

    # Waiting

    async def sleep(self, for_ms: int) -> None:
        """Return once `for_ms` have passed, or the clock was moved by this much."""
        await self.sleep_until(self.elapsed_ms() + for_ms)

    async def sleep_until(self, due_ms: int) -> None:
        """Return once `elapsed_ms() >= due_ms`, whether time passed or the clock was moved."""
        while (left_ms := due_ms - self.elapsed_ms()) > 0:
            moved = self._moved
            if self.is_frozen:
                await moved.wait()
            else:
                with trio.move_on_after(left_ms / 1000):
                    await moved.wait()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def sleep_until_or(self, due_ms: int, event: trio.Event) -> None:
        """Sleep as `sleep_until` does, but only until the event is set."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_then_cancel, event, nursery.cancel_scope)
            await self.sleep_until(due_ms)
            nursery.cancel_scope.cancel()

    # Work that has become due

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark the work of a task from its due time until it waits again: a caller that moves the clock can wait for the
        end."""
        self._jobs += 1
        try:
            yield
        finally:
            self._jobs -= 1
            if not self._jobs:
                self._at_rest.set()
                self._at_rest = trio.Event()

    @property
    def has_jobs(self) -> bool:
        """Whether a task is `at_work`."""
        return self._jobs > 0

    async def at_rest(self) -> None:
        """Return when no task is `at_work`."""
        while self._jobs:
            await self._at_rest.wait()


async def _then_cancel(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
