"""The moments at which members, delays and intervals end.

No request is sent near them, as two brokers cannot have them at the same time.
"""

from __future__ import annotations

import time
from typing import NamedTuple

GUARD_S = 0.6
"""The least time that a busy machine may let a broker sleep."""
SLOWER = 3.0
"""The factor by which a broker may sleep longer than it took to answer."""
FORGETS = 0.9
"""The factor by which the longest delay shrinks with each later one."""


class Moment(NamedTuple):
    """Between the two, at the one broker and at the other."""

    earliest_s: float
    latest_s: float


class Times:
    """The moments at which sessions, delays and intervals end, by name.

    Attributes:
        ended: The number of those that have ended.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._slowest_s = 0.0
        self._moments: dict[str, Moment] = {}

    def begins(self, name: str, began_s: float, ended_s: float, takes_s: float) -> None:
        """Note that something began between these two times, perhaps again, and lasts `takes_s`."""
        self._moments[name] = Moment(began_s + takes_s, ended_s + takes_s)

    def is_over(self, name: str) -> None:
        self._moments.pop(name, None)

    @property
    def guard_s(self) -> float:
        return max(GUARD_S, SLOWER * self._slowest_s)

    def took(self, seconds: float) -> None:
        """Note a delay: of an answer, or of a wake-up after its time."""
        self._slowest_s = max(seconds, FORGETS * self._slowest_s)

    def wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        time.sleep(seconds)
        self.took(time.monotonic() - end_s)

    def quiet_s(self, now_s: float) -> float:
        """Return the wait until no moment is near."""
        guard_s = self.guard_s
        left = {name: one for name, one in self._moments.items() if one.latest_s + guard_s > now_s}
        self.ended += len(self._moments) - len(left)
        self._moments = left
        at_s = now_s
        for moment in sorted(self._moments.values()):
            if moment.earliest_s - guard_s <= at_s <= moment.latest_s + guard_s:
                at_s = moment.latest_s + guard_s + 0.001
        return at_s - now_s
