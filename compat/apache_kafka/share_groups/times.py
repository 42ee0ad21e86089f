"""When locks and members end. Nothing is asked near such a moment, which two brokers cannot have at once."""

from __future__ import annotations

from typing import NamedTuple

GUARD_S = 0.4
"""A busy machine lets a broker sleep so long."""


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
        """Whether the time of a lock is over, which some records may have had until then."""
        self._members: dict[str, Moment] = {}

    @property
    def longest_s(self) -> float:
        """After which nothing is locked any more."""
        return self._lock_s + 2 * GUARD_S

    def locked(self, began_s: float, ended_s: float) -> None:
        """Records were acquired, or their locks renewed, between these two times."""
        self._locks.append(Moment(began_s + self._lock_s, ended_s + self._lock_s))

    def beat(self, member: str, began_s: float, ended_s: float, *, is_over: bool) -> None:
        """The member was heard of."""
        if is_over:
            self._members.pop(member, None)
        else:
            self._members[member] = Moment(began_s + self._session_s, ended_s + self._session_s)

    def quiet_s(self, now_s: float, takes_s: float) -> float:
        """How long to wait until nothing ends just now, nor while it takes so long."""
        left = [one for one in self._locks if one.latest_s + GUARD_S > now_s]
        self.has_ended |= len(left) < len(self._locks)
        self._locks = left
        at_s = now_s
        for moment in sorted((*self._locks, *self._members.values())):
            if moment.earliest_s - GUARD_S - takes_s <= at_s <= moment.latest_s + GUARD_S:
                at_s = moment.latest_s + GUARD_S + 0.001
        return at_s - now_s
