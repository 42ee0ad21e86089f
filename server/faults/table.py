"""The table of declared faults: which are in force, what they have met, and who waits for them to meet something.

All on Trio's thread. Requests are asked about only while a fault is in force that may be for their API: those who have them
handled (`watched_by`) are told which APIs that are, and leave all others as they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from ..runtime.errors import ControlError, Kind

if TYPE_CHECKING:
    from .declaration import Declaration

FAULTS_MAX = 1_000
"""Those that are spent count, as they are listed, until they are removed."""

Watcher = Callable[["Faults"], None]


class DeclaredFault:
    """A declared fault and what became of it."""

    def __init__(self, table: Faults, fault_id: int, declaration: Declaration) -> None:
        self.id = fault_id
        self.declaration = declaration
        self.hits = 0
        """What it has met: a request when the fault begins to act on it, where that is carried out first, then afterwards; of a
        disk an operation."""
        self.removed = trio.Event()
        self._table = table
        self.left = declaration.count
        """How many more it is for; None: all."""
        self._skip = declaration.skip
        self._hit = trio.Event()

    @property
    def is_active(self) -> bool:
        """Whether it may meet more."""
        return not self.removed.is_set() and self.left != 0

    def take(self) -> bool:
        """A request fits: whether the fault is for it, and not for a later or an earlier one."""
        if not self.is_active:
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
            if not self.left:
                self._table.changed()
        return True

    def hit(self) -> None:
        """Count a request on which the fault acts."""
        self.hits += 1
        self._hit.set()
        self._hit = trio.Event()

    def end(self) -> None:
        """It is removed: for the table."""
        self.removed.set()
        self._hit.set()

    async def wait(self, hits: int = 1) -> None:
        """Return once it has met so many, at once if it has, or when it is removed."""
        while self.hits < hits and not self.removed.is_set():
            hit = self._hit
            await hit.wait()

    def remove(self) -> None:
        """End it: requests that it keeps waiting are carried out, connections that it has silenced are closed. May be called
        again."""
        self._table.remove(self)


class Faults:
    """All of a broker, over all its lives. Free while there are none."""

    def __init__(self) -> None:
        self._faults: dict[int, DeclaredFault] = {}
        self._ids = itertools.count(1)
        self._watchers: list[Watcher] = []

    def __iter__(self) -> Iterator[DeclaredFault]:
        """In the order in which they were declared."""
        return iter(tuple(self._faults.values()))

    def __len__(self) -> int:
        return len(self._faults)

    def get(self, fault_id: int) -> DeclaredFault | None:
        return self._faults.get(fault_id)

    def declare(self, declaration: Declaration) -> DeclaredFault:
        """Have it in force from now on.

        Raises:
            ControlError: INVALID: It may not be declared, or there is no room for one more. Nothing has changed.
        """
        from .declaration import check  # It knows all APIs, and no broker without faults shall wait for that.

        check(declaration)
        if len(self._faults) >= FAULTS_MAX:
            raise ControlError(Kind.INVALID, f"too many faults (limit {FAULTS_MAX}); remove some first")
        fault = DeclaredFault(self, next(self._ids), declaration)
        self._faults[fault.id] = fault
        self.changed()
        return fault

    def remove(self, fault: DeclaredFault) -> None:
        if self._faults.pop(fault.id, None) is not None:
            fault.end()
            self.changed()

    def clear(self) -> int:
        """Remove all; returns how many there were."""
        faults = tuple(self)
        self._faults.clear()
        for fault in faults:
            fault.end()
        self.changed()
        return len(faults)

    def active(self) -> list[DeclaredFault]:
        """Those that may meet more, in the order in which they were declared."""
        return [fault for fault in self._faults.values() if fault.is_active]

    @contextmanager
    def watched_by(self, watcher: Watcher) -> Iterator[None]:
        """Have `watcher` called now, and whenever other faults are in force."""
        self._watchers.append(watcher)
        watcher(self)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def changed(self) -> None:
        """Others are in force."""
        for watcher in tuple(self._watchers):
            watcher(self)
