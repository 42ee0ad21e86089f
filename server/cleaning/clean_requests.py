"""Requested passes and their results.

    on_demand  --request-->  the queue  --a cleaner thread, before it selects a log itself-->  one pass  -->  again, until all
                                                                         is covered that could be cleaned when it began

Threads, memory, states of partitions and checkpoints are those of the cleaner's own rounds. So a request waits for a
partition that another operation has, and a pass that is stopped for another operation is requested again.
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


class CleanOutcome(Enum):
    """Result of a request."""

    NOT_DUE = auto()
    """Nothing to clean."""
    PASSED = auto()
    """A pass was completed."""
    GIVEN_UP = auto()
    """Another operation has or wants the partition, or the threads restart."""


class CleanRequest:
    """One requested pass, with a waiting caller."""

    def __init__(self, log: Log, *, is_forced: bool, erased_keys: frozenset[bytes] = frozenset()) -> None:
        self.log = log
        self.is_forced = is_forced
        self.erased_keys = erased_keys
        self.is_abandoned = False
        self.up_to: int | None = None
        """The end of the cleanable part when a thread took the log; None if no thread did."""
        self.failure: str | None = None
        """Why the pass failed, as in the log."""
        self._served: CleanOutcome | None = None
        self._over = trio.Event()

    def end(self, served: CleanOutcome, failure: str | None = None) -> None:
        self._served, self.failure = served, failure
        self._over.set()

    async def wait(self) -> CleanOutcome:
        """Wait for the result. A cancelled caller abandons the request; a pass that has begun is completed."""
        try:
            await self._over.wait()
        except trio.Cancelled:
            self.is_abandoned = True
            raise
        assert self._served is not None
        return self._served


class CleanRequests:
    """Queue of clean requests that no thread has taken yet, and listeners to passes and changes."""

    def __init__(self) -> None:
        self._line: deque[CleanRequest] = deque()
        self._listeners: dict[TopicPartition, list[list[LastPass]]] = {}
        self.changes = 0
        """Number of changes that may matter to a waiting caller: who has a partition, whether it exists, how far it is
        clean, which cleaners run.
        """
        self._changed: trio.Event | None = None
        """Set with the next change; None unless a caller waits for it."""

    def add(self, clean_request: CleanRequest) -> None:
        self._line.append(clean_request)

    def take(self) -> CleanRequest | None:
        """Return the first request that is not abandoned, None if the queue is empty."""
        while self._line:
            clean_request = self._line.popleft()
            if not clean_request.is_abandoned:
                return clean_request
        return None

    def give_back_all(self) -> None:
        """End all clean requests because no thread will take them: their callers check again, and find the reason."""
        while self._line:
            self._line.popleft().end(CleanOutcome.GIVEN_UP)

    @contextmanager
    def listening(self, partition: TopicPartition) -> Iterator[list[LastPass]]:
        """Collect the passes over a partition that are completed while the block runs, requested or not."""
        passes: list[LastPass] = []
        self._listeners.setdefault(partition, []).append(passes)
        try:
            yield passes
        finally:
            listeners = self._listeners[partition]
            listeners[:] = [each for each in listeners if each is not passes]
            if not listeners:
                del self._listeners[partition]

    def notify_passed(self, partition: TopicPartition, last_pass: LastPass) -> None:
        """Notify listeners of a completed pass."""
        for passes in self._listeners.get(partition, ()):
            passes.append(last_pass)

    def note_change(self) -> None:
        self.changes += 1
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def change(self, since: int) -> None:
        """Return once `changes` is greater than `since`."""
        while self.changes == since:
            if self._changed is None:
                self._changed = trio.Event()
            await self._changed.wait()
