"""Table of the declared faults, their hits, and the callers that wait for hits.

All on Trio's thread. Only requests of APIs that a present fault may match are checked: `watched_by` notifies its
callers which APIs those are, and they leave all others alone.
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
"""Maximum number of faults. Used-up faults count until they are removed, since they are listed."""

Watcher = Callable[["Faults"], None]


class DeclaredFault:
    """A declared fault and its state."""

    def __init__(self, table: Faults, fault_id: int, declaration: Declaration) -> None:
        self.id = fault_id
        self.declaration = declaration
        self.hits = 0
        """Number of hits. A request is counted when the fault fires, or after its execution if it is executed first;
        for a disk fault, operations are counted.
        """
        self.removed = trio.Event()
        self._table = table
        self.left = declaration.count
        """Number of requests that it will still hit; None: all."""
        self._skip = declaration.skip
        self._hit = trio.Event()

    @property
    def is_active(self) -> bool:
        """Whether it can still hit requests."""
        return not self.removed.is_set() and self.left != 0

    def take(self) -> bool:
        """Decide whether the fault applies to a matching request, by its `skip` and `count`, and count that request."""
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
        """Count a hit, and wake waiting callers."""
        self.hits += 1
        self._hit.set()
        self._hit = trio.Event()

    def end(self) -> None:
        """Mark as removed; for the table."""
        self.removed.set()
        self._hit.set()

    async def wait(self, hits: int = 1) -> None:
        """Return once the fault has this many hits, or when it is removed."""
        while self.hits < hits and not self.removed.is_set():
            hit = self._hit
            await hit.wait()

    def remove(self) -> None:
        """Remove the fault: requests that it delays are executed, connections that it silenced are closed.

        May be called again.
        """
        self._table.remove(self)


class Faults:
    """All faults of a broker, across its restarts. Costs nothing without faults."""

    def __init__(self) -> None:
        self._faults: dict[int, DeclaredFault] = {}
        self._ids = itertools.count(1)
        self._watchers: list[Watcher] = []

    def __iter__(self) -> Iterator[DeclaredFault]:
        """Iterate in the order of declaration."""
        return iter(tuple(self._faults.values()))

    def __len__(self) -> int:
        return len(self._faults)

    def get(self, fault_id: int) -> DeclaredFault | None:
        return self._faults.get(fault_id)

    def declare(self, declaration: Declaration) -> DeclaredFault:
        """Add a fault, in effect at once.

        Raises:
            ControlError: INVALID: the declaration is invalid, or too many faults exist. Nothing has changed.
        """
        from .declaration import check  # It imports all APIs, which a broker without faults does not need.

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
        """Remove all faults; return how many there were."""
        faults = tuple(self)
        self._faults.clear()
        for fault in faults:
            fault.end()
        self.changed()
        return len(faults)

    def active(self) -> list[DeclaredFault]:
        """Return the faults that can still hit requests, in the order of declaration."""
        return [fault for fault in self._faults.values() if fault.is_active]

    @contextmanager
    def watched_by(self, watcher: Watcher) -> Iterator[None]:
        """Call `watcher` now, and whenever the set of active faults changes."""
        self._watchers.append(watcher)
        watcher(self)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    def changed(self) -> None:
        """Notify watchers of a changed set of active faults."""
        for watcher in tuple(self._watchers):
            watcher(self)
