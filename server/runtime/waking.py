"""Tasks that one event lets go on, a few of them at a time.

Of a thousand that one append or one rebalance ends the wait of, each wakes another as it goes on: to go on takes a tenth of a
millisecond, and in one pass of the scheduler all others would wait for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

AWAKE_MAX = 16
"""Those that are woken and have not gone on."""


class Sleeper(Protocol):
    """A task that waits. Hashable, by identity."""

    def wake_now(self) -> None:
        """Let it go on."""


class Waking:
    """Who of all is woken, and who has to wait for that."""

    def __init__(self) -> None:
        self._awake: set[Sleeper] = set()
        self._next: OrderedDict[Sleeper, None] = OrderedDict()

    def wake(self, sleeper: Sleeper) -> None:
        """Now, or as soon as others have gone on. May be called again. Whoever is woken calls `left` whatever happens."""
        if len(self._awake) < AWAKE_MAX:
            self._awake.add(sleeper)
            sleeper.wake_now()
        elif sleeper not in self._awake:
            self._next[sleeper] = None

    def left(self, sleeper: Sleeper) -> None:
        """It goes on, or has given up."""
        self._next.pop(sleeper, None)
        if sleeper in self._awake:
            self._awake.remove(sleeper)
            if self._next:
                self.wake(self._next.popitem(last=False)[0])
