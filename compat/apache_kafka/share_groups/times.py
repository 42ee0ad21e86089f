"""The moments at which locks and sessions end.

No request is sent near them, as two brokers cannot have them at the same time.
"""

from __future__ import annotations

from typing import NamedTuple

GUARD_S = 0.4
"""How long a busy machine may let a broker sleep."""


class Moment(NamedTuple):
    """Between the two, at the one broker and at the other."""

    earliest_s: float
    latest_s: float


class Times:
    """
    Args:
        lock_s: How long records stay acquired.
        session_s: How long a member may be silent.
    """

    def __init__(self, lock_s: float, session_s: float) -> None:
        self._lock_s, self._session_s = lock_s, session_s
        self._locks: list[Moment] = []
        self.has_ended = False
        """Whether a lock has expired, which some records may have had until then."""
        self._members: dict[str, Moment] = {}

    @property
    def longest_s(self) -> float:
        """The time after which no record is locked any more."""
        return self._lock_s + 2 * GUARD_S

    def locked(self, began_s: float, ended_s: float) -> None:
        """Note that records were acquired, or their locks renewed, between these two times."""
        self._locks.append(Moment(began_s + self._lock_s, ended_s + self._lock_s))

    def beat(self, member: str, began_s: float, ended_s: float, *, is_over: bool) -> None:
        """Note a heartbeat of the member, or its end."""
        if is_over:
            self._members.pop(member, None)
        else:
            self._members[member] = Moment(began_s + self._session_s, ended_s + self._session_s)

    def quiet_s(self, now_s: float, takes_s: float) -> float:
        """Return the wait until no lock or session ends now, nor within `takes_s` after the wait."""
        left = [one for one in self._locks if one.latest_s + GUARD_S > now_s]
        self.has_ended |= len(left) < len(self._locks)
        self._locks = left
        at_s = now_s
        for moment in sorted((*self._locks, *self._members.values())):
            if moment.earliest_s - GUARD_S - takes_s <= at_s <= moment.latest_s + GUARD_S:
                at_s = moment.latest_s + GUARD_S + 0.001
        return at_s - now_s
