"""When members, delays and intervals end. Nothing is asked near such a moment, which two brokers cannot have at once."""

from __future__ import annotations

import time
from typing import NamedTuple

GUARD_S = 0.5
"""A busy machine lets a broker sleep so long."""
LATE_S = 0.1
"""Who wakes so late is on a machine that stood still: brokers have to catch up, too."""


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
        self._moments: dict[str, Moment] = {}

    def begins(self, name: str, began_s: float, ended_s: float, takes_s: float) -> None:
        """Something began between these two times, perhaps anew, and takes so long."""
        self._moments[name] = Moment(began_s + takes_s, ended_s + takes_s)

    def is_over(self, name: str) -> None:
        self._moments.pop(name, None)

    @staticmethod
    def wait(seconds: float) -> None:
        end_s = time.monotonic() + seconds
        time.sleep(seconds)
        if time.monotonic() > end_s + LATE_S:
            time.sleep(GUARD_S)

    def quiet_s(self, now_s: float) -> float:
        """How long to wait until nothing ends just now."""
        left = {name: one for name, one in self._moments.items() if one.latest_s + GUARD_S > now_s}
        self.ended += len(self._moments) - len(left)
        self._moments = left
        at_s = now_s
        for moment in sorted(self._moments.values()):
            if moment.earliest_s - GUARD_S <= at_s <= moment.latest_s + GUARD_S:
                at_s = moment.latest_s + GUARD_S + 0.001
        return at_s - now_s
