"""Passes that somebody asks for, and what becomes of them.

    on_demand  --demand-->  the line  --a cleaner thread, before it chooses for itself-->  one pass  -->  and again, until all
                                                                        is covered that could be cleaned when it began

The threads, their memory, the states of partitions and the checkpoints are those of the cleaner's own rounds, so a partition
that somebody has is waited for, and a pass that is given up for others' sake is asked for anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import TYPE_CHECKING

import trio

from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log

if TYPE_CHECKING:
    from .advice import LastPass


class DemandResult(Enum):
    """What a cleaner thread made of a demand."""

    NOT_DUE = auto()
    """There is nothing for it to do."""
    PASSED = auto()
    """A pass came to its end."""
    GIVEN_UP = auto()
    """Somebody else has the partition, or wants it; or the threads start anew."""


class Demand:
    """A pass that somebody waits for."""

    def __init__(self, log: Log, *, is_forced: bool) -> None:
        self.log = log
        self.is_forced = is_forced
        self.is_abandoned = False
        self.up_to: int | None = None
        """The end of what could be cleaned when a thread took the log; None if none did."""
        self.failure: str | None = None
        """Why the pass failed, as the operator was told."""
        self._served: DemandResult | None = None
        self._over = trio.Event()

    def end(self, served: DemandResult, failure: str | None = None) -> None:
        self._served, self.failure = served, failure
        self._over.set()

    async def over(self) -> DemandResult:
        """What became of it. Who is cancelled does not want it any more; a pass that has begun comes to its end."""
        try:
            await self._over.wait()
        except trio.Cancelled:
            self.is_abandoned = True
            raise
        assert self._served is not None
        return self._served


class Demands:
    """The line of those that no thread has taken yet, and who wants to hear of passes and of changes."""

    def __init__(self) -> None:
        self._line: deque[Demand] = deque()
        self._listeners: dict[TopicPartition, list[list[LastPass]]] = {}
        self.changes = 0
        """How often something became another way for some partition: who has it, whether it is there, how far it is clean, who
        cleans."""
        self._changed: trio.Event | None = None
        """While somebody waits for it."""

    def add(self, demand: Demand) -> None:
        self._line.append(demand)

    def take(self) -> Demand | None:
        """The first that is still wanted."""
        while self._line:
            demand = self._line.popleft()
            if not demand.is_abandoned:
                return demand
        return None

    def give_back_all(self) -> None:
        """No thread will take any of them: those who wait look again, and find out why."""
        while self._line:
            self._line.popleft().end(DemandResult.GIVEN_UP)

    @contextmanager
    def listening(self, partition: TopicPartition) -> Iterator[list[LastPass]]:
        """The passes over a partition that come to their end while the block runs, whoever wanted them."""
        passes: list[LastPass] = []
        self._listeners.setdefault(partition, []).append(passes)
        try:
            yield passes
        finally:
            listeners = self._listeners[partition]
            listeners[:] = [each for each in listeners if each is not passes]
            if not listeners:
                del self._listeners[partition]

    def passed(self, partition: TopicPartition, last_pass: LastPass) -> None:
        """A pass came to its end."""
        for passes in self._listeners.get(partition, ()):
            passes.append(last_pass)

    def note_change(self) -> None:
        self.changes += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def change(self, since: int) -> None:
        """Return once there have been more `changes` than that."""
        while self.changes == since:
            if self._changed is None:
                self._changed = trio.Event()
            await self._changed.wait()
