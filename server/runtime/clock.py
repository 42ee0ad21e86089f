"""The broker's two times, which tests and the admin surface can move.

    now_ms()       wall time: what is stored, or compared with what is stored (timestamps of records, offsets, transactions)
    elapsed_ms()   time that only passes: every deadline, time-out and interval

Somebody may set the wall clock, in either direction: then nothing that is waited for comes earlier or later, and nothing
that lives is ended. Everything below the server takes these times as arguments; everything in the server asks this clock.
Waiting goes through `sleep` and `sleep_until`, so a moved clock also ends the waits it makes due. What belongs to one
client's connection (how long a fetch waits, how long a connection may be idle) goes by Trio's clock and cannot be moved.

A frozen clock stands still in both readings: who waits goes on when it is moved, or goes again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING, NamedTuple

import trio
import trio.lowlevel

if TYPE_CHECKING:
    from datetime import datetime, timedelta

NOW_MS_MAX = 253_402_300_799_999
"""The end of the year 9999, as far as people's calendars are printed."""


def wall_time_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def monotonic_time_ms() -> int:
    """Milliseconds since some moment in the past, which nobody can set."""
    return time.monotonic_ns() // 1_000_000


def duration_ms(
    by: timedelta | None, *, days: float, hours: float, minutes: float, seconds: float, milliseconds: float
) -> int:
    """All of these together, to the millisecond below.

    Raises:
        TypeError: They are no durations.
        OverflowError: More than `timedelta` can tell, three million years.
    """
    from datetime import timedelta  # most brokers never print a time

    if by is not None and not isinstance(by, timedelta):
        raise TypeError(
            f"advance: expected a timedelta, or days=, hours=, minutes=, seconds=, milliseconds=, found {by!r}"
        )
    whole = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    return (whole + (by or timedelta())) // timedelta(milliseconds=1)


def moment_ms(moment: datetime | int) -> int:
    """Milliseconds since 1970, to the one below.

    Raises:
        TypeError: Neither that, nor a datetime with a time zone.
    """
    from datetime import datetime, timedelta

    if isinstance(moment, int):
        return moment
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise TypeError(f"set: expected a datetime with a time zone, or milliseconds since 1970, found {moment!r}")
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def datetime_of(now_ms: int) -> datetime:
    """A moment in UTC."""
    from datetime import datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)


class _Reading(NamedTuple):
    """How the two readings are come by. One value, as any thread may ask while another is put in its place."""

    wall_offset_ms: int = 0
    elapsed_offset_ms: int = 0
    frozen: tuple[int, int] | None = None
    """Both readings, while the clock stands still."""


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
        self._reading = _Reading()
        self._moved = trio.Event()
        self.moving = trio.Lock()
        """Held by whoever does more about a move than `advance` does."""
        self._jobs = 0
        self._at_rest = trio.Event()

    def now_ms(self) -> int:
        """Milliseconds since 1970, including every move so far. May go back."""
        reading = self._reading
        return self._wall() + reading.wall_offset_ms if reading.frozen is None else reading.frozen[0]

    def elapsed_ms(self) -> int:
        """Milliseconds since some moment in the past, including every move ahead. Never goes back."""
        reading = self._reading
        return self._monotonic() + reading.elapsed_offset_ms if reading.frozen is None else reading.frozen[1]

    def wall_at(self, due_ms: int) -> int:
        """The wall time at `due_ms` of elapsed time, unless somebody sets the clock before: for people to read."""
        return self.now_ms() + due_ms - self.elapsed_ms()

    @property
    def is_frozen(self) -> bool:
        return self._reading.frozen is not None

    def now_after(self, by_ms: int) -> int:
        """The wall time when the clock has been moved by so much."""
        return self.now_ms() + by_ms

    # Moving

    def advance(self, by_ms: int) -> None:
        """Let `by_ms` more have passed, and wake everyone who waits.

        Time that has passed cannot be taken back: a negative `by_ms` sets back the wall time alone, as an operator may,
        and what was due at a certain moment still is.
        """
        wall_offset_ms, elapsed_offset_ms, frozen = self._reading
        ahead_ms = max(0, by_ms)
        if frozen is not None:
            frozen = frozen[0] + by_ms, frozen[1] + ahead_ms
        self._reading = _Reading(wall_offset_ms + by_ms, elapsed_offset_ms + ahead_ms, frozen)
        self._wake()

    def freeze(self) -> None:
        """Stand still from now on; nothing is done if it does already."""
        if not self.is_frozen:
            self._reading = self._reading._replace(frozen=(self.now_ms(), self.elapsed_ms()))
            self._wake()  # whoever waits for a moment would find that it has not come, over and over

    def unfreeze(self) -> None:
        """Go on from where it stands; nothing is done if it goes."""
        frozen = self._reading.frozen
        if frozen is not None:
            self._reading = _Reading(frozen[0] - self._wall(), frozen[1] - self._monotonic())
            self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    @property
    def ahead_ms(self) -> int:
        """How far the wall time has been moved, in all."""
        return self.now_ms() - self._wall() if self.is_frozen else self._reading.wall_offset_ms

    def begin_anew(self, ahead_ms: int = 0) -> None:
        """Take every move back, go, and be so far ahead of the wall clock. Only while nothing waits for a moment of elapsed time."""
        self._reading = _Reading(wall_offset_ms=ahead_ms)
        self._wake()

    # Waiting

    async def sleep(self, for_ms: int) -> None:
        """Return once `for_ms` have passed, or the clock was moved by as much."""
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
        """As `sleep_until`, or until the event is set."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_then_cancel, event, nursery.cancel_scope)
            await self.sleep_until(due_ms)
            nursery.cancel_scope.cancel()

    # What time has made due

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Around what a task does when its time has come, until it waits again: whoever moves the clock can wait for the end."""
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
        """Whether anybody is `at_work`."""
        return self._jobs > 0

    async def at_rest(self) -> None:
        """Return when nobody is `at_work`."""
        while self._jobs:
            await self._at_rest.wait()


async def _then_cancel(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
