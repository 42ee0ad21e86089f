"""Responses that are held back until their group changes, so that its members learn of that at once.

The response listens to the bell of its group. After a ring its request is handled again. Otherwise it is sent at its deadline, or
when its client sends another request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..network.dispatcher import Deferred
from ..runtime.deferrals import Deferrals
from .bell import Bell

TICK_MS = 50
"""See `Deferrals`."""


class HeldResponse(Deferred):
    """
    Args:
        response: Response to the request, if nothing changes; small.
        waits: All held responses.
        bell: Bell of the group.
        deadline_ms: Moment of Trio's time at which the response is sent, or up to a tick earlier.
    """

    __slots__ = ("__weakref__", "_bell", "is_outdated", "response")

    def __init__(self, response: Any, waits: Deferrals, bell: Bell, deadline_ms: float) -> None:
        super().__init__(waits, deadline_ms)
        self.response = response
        self.is_outdated = False
        """Whether the group has changed."""
        self._bell = bell

    def begin(self, send: Callable[[], object]) -> None:
        super().begin(send)
        self._bell[self] = None

    def ring(self) -> None:
        self.is_outdated = True
        self._waits.end_soon(self)

    def leave(self) -> None:
        super().leave()
        self._bell.pop(self, None)

    def yields(self, *, is_ending: bool) -> bool:
        return True

    def finish(self, handle_again: Callable[[], Any]) -> Any:
        return handle_again() if self.is_outdated else self.response

    def instead(self) -> Any:
        return self.response
