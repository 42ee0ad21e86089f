"""Responses that are held back until their group changes, so that its members learn of that at once.

    begin    the response listens to the bell of its group, and has a deadline
    ring     the group has changed: the response ends, and its request is handled again
    end      the response is sent: after a ring, at the deadline, or as its client sends another request

A held response has no task: the task of its connection stays parked. One task, `HeldResponses.run`, ends those whose bell has
rung or whose deadline has come. Deadlines are Trio's time, as for all waits of a client: the broker's clock may stand still.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import trio

from ..network.dispatcher import Deferred
from ..runtime.time_slices import TimeSlice
from .bell import Bell

TICK_MS = 50
"""Deadlines between two ticks come at the earlier one: to wake the task for each would cost more than the responses."""


class HeldResponses:
    """All held responses of one coordinator."""

    def __init__(self) -> None:
        self._due: dict[int, dict[HeldResponse, None]] = {}
        """Responses by the tick at which they end."""
        self._ending: deque[HeldResponse] = deque()
        self._sleep = trio.CancelScope()
        self._next_tick: float = inf
        """The tick until which the task sleeps."""

    def add(self, held: HeldResponse, tick: int) -> None:
        due = self._due.get(tick)
        if due is None:
            self._due[tick] = {held: None}
            if tick < self._next_tick:
                self._sleep.cancel()
        else:
            due[held] = None

    def remove(self, held: HeldResponse, tick: int) -> None:
        """Forget a response that has ended; it may be forgotten already."""
        due = self._due.get(tick)
        if due is not None:
            due.pop(held, None)
            if not due:
                del self._due[tick]

    def end_soon(self, held: HeldResponse) -> None:
        self._ending.append(held)
        if len(self._ending) == 1:
            self._sleep.cancel()

    async def run(self) -> None:
        """End responses until cancelled."""
        time_slice = TimeSlice()
        while True:
            tick = self._next_tick = min(self._due, default=inf)
            if tick * TICK_MS <= trio.current_time() * 1000:
                self._ending += self._due.pop(int(tick))
            elif not self._ending:
                with trio.CancelScope(deadline=tick * TICK_MS / 1000) as self._sleep:
                    await trio.sleep_forever()
                time_slice.begin()
            while self._ending and not time_slice.is_over():
                self._ending.popleft().end()
            if self._ending:
                await time_slice.next()


class HeldResponse(Deferred):
    """
    Args:
        response: Response to the request, if nothing changes.
        others: All held responses.
        bell: Bell of the group.
        deadline_ms: Moment of Trio's time at which the response is sent, or up to a tick earlier.
    """

    __slots__ = ("__weakref__", "_bell", "_others", "_send", "_tick")

    def __init__(self, response: Any, others: HeldResponses, bell: Bell, deadline_ms: float) -> None:
        super().__init__(response)
        self._others = others
        self._bell = bell
        self._tick = int(deadline_ms // TICK_MS)
        self._send: Callable[[], object] | None = None

    def begin(self, send: Callable[[], object]) -> None:
        self._send = send
        self._bell[self] = None
        self._others.add(self, self._tick)

    def ring(self) -> None:
        self.is_outdated = True
        self._others.end_soon(self)

    def end(self) -> None:
        """Send the response, unless the wait has ended."""
        if self._send is not None:
            self.is_due = True
            self._send()

    def leave(self) -> None:
        self._send = None
        self._bell.pop(self, None)
        self._others.remove(self, self._tick)
