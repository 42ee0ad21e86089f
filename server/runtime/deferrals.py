"""Responses that wait for a change, and their deadlines.

A response that waits has no task: the task of its connection stays parked. One task, `Deferrals.run`, ends those whose deadline
has come. Deadlines are Trio's time, as for all waits of a client: the broker's clock may stand still.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Protocol

import trio

from .time_slices import passes

ENDED_IN_PASS_MAX = 24
"""Largest number of waits that end in a pass of the scheduler. To answer one takes a twentieth of a millisecond."""


class Ending(Protocol):
    """Hashable, by identity."""

    def end(self) -> None:
        """End the wait, unless it has ended."""


class Deferrals:
    """All waits of one kind.

    Args:
        tick_ms: Deadlines between two ticks come at the earlier one: to wake the task for each would cost more than the responses.
    """

    def __init__(self, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self._due: dict[int, dict[Ending, None]] = {}
        """Waits by the tick at which they end."""
        self._ending: deque[Ending] = deque()
        self._pass = self._ended = 0
        """The last pass in which waits ended, and how many."""
        self._sleep = trio.CancelScope()
        self._next_tick: float = inf
        """The tick until which the task sleeps."""

    def add(self, wait: Ending, tick: int) -> None:
        due = self._due.get(tick)
        if due is None:
            self._due[tick] = {wait: None}
            if tick < self._next_tick:
                self._sleep.cancel()
        else:
            due[wait] = None

    def remove(self, wait: Ending, tick: int) -> None:
        """Forget a wait that has ended; it may be forgotten already."""
        due = self._due.get(tick)
        if due is not None:
            due.pop(wait, None)
            if not due:
                del self._due[tick]

    def end_soon(self, wait: Ending) -> None:
        """End a wait in this pass of the scheduler, or a later one if many have ended in this: one change may end thousands."""
        if not self._ending and self._may_end():
            wait.end()
            return
        self._ending.append(wait)
        if len(self._ending) == 1:
            self._sleep.cancel()

    def _may_end(self) -> bool:
        """Count a wait that ends in this pass, if it may."""
        if self._pass != (now := passes()):
            self._pass, self._ended = now, 0
        self._ended += 1
        return self._ended <= ENDED_IN_PASS_MAX

    async def run(self) -> None:
        """End waits until cancelled."""
        while True:
            tick = self._next_tick = min(self._due, default=inf)
            if tick * self.tick_ms <= trio.current_time() * 1000:
                self._ending += self._due.pop(int(tick))
            elif not self._ending:
                with trio.CancelScope(deadline=tick * self.tick_ms / 1000) as self._sleep:
                    await trio.sleep_forever()
            while self._ending and self._may_end():
                self._ending.popleft().end()
            if self._ending:
                await trio.lowlevel.checkpoint()
