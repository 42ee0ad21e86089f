"""Responses that are held back until their group changes, so that its members learn of that at once.

    begin    the response listens to the bell of its group, and has a deadline
    ring     the group has changed: the request is handled again
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
        self._due: dict[int, list[HeldResponse]] = {}
        """Responses by the tick at which they end, also those that have ended earlier."""
        self._ending: deque[HeldResponse] = deque()
        self._sleep = trio.CancelScope()

    def end_at(self, held: HeldResponse, deadline_ms: float) -> None:
        """End a response at this moment of Trio's time, or up to a tick earlier."""
        tick = int(deadline_ms // TICK_MS)
        if tick in self._due:
            self._due[tick].append(held)
            return
        self._due[tick] = [held]
        if tick == min(self._due):
            self._sleep.cancel()

    def end_soon(self, held: HeldResponse) -> None:
        self._ending.append(held)
        if len(self._ending) == 1:
            self._sleep.cancel()

    async def run(self) -> None:
        """End responses until cancelled."""
        time_slice = TimeSlice()
        while True:
            tick = min(self._due, default=inf)
            if tick * TICK_MS <= _trio_ms():
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
        bell: Bell of the group.
        for_ms: Longest time until the response is sent.
        again: Function that handles the request again.
    """

    __slots__ = ("_again", "_bell", "_for_ms", "_has_rung", "_others", "_send")

    def __init__(
        self, response: Any, others: HeldResponses, bell: Bell, for_ms: float, again: Callable[[], Any]
    ) -> None:
        super().__init__(response)
        self._others = others
        self._bell = bell
        self._for_ms = for_ms
        self._again = again
        self._has_rung = False
        self._send: Callable[[], object] | None = None

    def begin(self, send: Callable[[], object]) -> None:
        self._send = send
        self._bell[self] = None
        self._others.end_at(self, _trio_ms() + self._for_ms)

    def ring(self) -> None:
        self._has_rung = True
        self._others.end_soon(self)

    def end(self) -> None:
        """Send the response, unless the wait has ended."""
        if self._send is not None:
            self.is_due = True
            self._send()

    def leave(self) -> None:
        self._send = None
        self._bell.pop(self, None)

    def result(self) -> Any:
        return self._again() if self._has_rung else self.response


def _trio_ms() -> float:
    return trio.current_time() * 1000
