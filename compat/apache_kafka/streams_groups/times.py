"""When members, delays and intervals end. Nothing is asked near such a moment, which two brokers cannot have at once."""

from __future__ import annotations

import time
from typing import NamedTuple

GUARD_S = 0.6
"""A busy machine lets a broker sleep so long, at least."""
SLOWER = 3.0
"""How much longer it may sleep than it took to answer."""
FORGETS = 0.9
"""What is left of the longest answer with each that follows."""


class Moment(NamedTuple):
    """Between the two, at the one broker and at the other."""

    earliest_s: float
    latest_s: float


class Times:
    """What ends, by name.

    Attributes:
        ended: How much has.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._slowest_s = 0.0
        self._moments: dict[str, Moment] = {}

    def begins(self, name: str, began_s: float, ended_s: float, takes_s: float) -> None:
        """Something began between these two times, perhaps anew, and takes so long."""
        self._moments[name] = Moment(began_s + takes_s, ended_s + takes_s)

    def is_over(self, name: str) -> None:
        self._moments.pop(name, None)

    @property
    def guard_s(self) -> float:
        return max(GUARD_S, SLOWER * self._slowest_s)

    def took(self, seconds: float) -> None:
        """Something took so long: to be answered, or to wake beyond the time that it was to sleep."""
        self._slowest_s = max(seconds, FORGETS * self._slowest_s)

    def wait(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        time.sleep(seconds)
        self.took(time.monotonic() - end_s)

    def quiet_s(self, now_s: float) -> float:
        """How long to wait until nothing ends just now."""
        guard_s = self.guard_s
        left = {name: one for name, one in self._moments.items() if one.latest_s + guard_s > now_s}
        self.ended += len(self._moments) - len(left)
        self._moments = left
        at_s = now_s
        for moment in sorted(self._moments.values()):
            if moment.earliest_s - guard_s <= at_s <= moment.latest_s + guard_s:
                at_s = moment.latest_s + guard_s + 0.001
        return at_s - now_s
