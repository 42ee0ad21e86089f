"""Fetches that wait for data, and the appends that wake them (Kafka's "purgatory", small).

A waiter names the partitions it watches and the bytes it still misses. Each append reports how
many bytes it added; a waiter is woken when its missing bytes have arrived, so a fetch with a large
`min_bytes` costs one subtraction per append instead of one evaluation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Self

import trio

from ..storage.paths import TopicPartition


class Waiter:
    """One parked fetch. Use as a context manager so that it always leaves the table."""

    __slots__ = ("_event", "_missing_bytes", "_partitions", "_waits")

    def __init__(self, waits: Waits, partitions: Iterable[TopicPartition], missing_bytes: int) -> None:
        self._waits = waits
        self._partitions = tuple(partitions)
        self._missing_bytes = missing_bytes
        self._event = trio.Event()

    def __enter__(self) -> Self:
        for partition in self._partitions:
            self._waits.table[partition].add(self)
        return self

    def __exit__(self, *_: object) -> None:
        table = self._waits.table
        for partition in self._partitions:
            waiters = table[partition]
            waiters.discard(self)
            if not waiters:
                del table[partition]

    def grew(self, by_bytes: int) -> None:
        self._missing_bytes -= by_bytes
        if self._missing_bytes <= 0:
            self._event.set()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_ms: float) -> bool:
        """Wait at most `timeout_ms`; True if woken, False if the time ran out."""
        with trio.move_on_after(timeout_ms / 1000):
            await self._event.wait()
            return True
        return False


class Waits:
    """All parked fetches, by the partition they watch."""

    def __init__(self) -> None:
        self.table: defaultdict[TopicPartition, set[Waiter]] = defaultdict(set)

    def park(self, partitions: Iterable[TopicPartition], missing_bytes: int) -> Waiter:
        """A waiter over `partitions` that misses `missing_bytes`; enter it before the last look."""
        return Waiter(self, partitions, missing_bytes)

    def grew(self, partition: TopicPartition, by_bytes: int) -> None:
        """An append added `by_bytes` readable bytes to `partition`."""
        waiters = self.table.get(partition)
        if waiters:
            for waiter in tuple(waiters):
                waiter.grew(by_bytes)

    def changed(self, partition: TopicPartition) -> None:
        """Something other than growth happened (deleted, leader moved): all its waiters look again."""
        for waiter in tuple(self.table.get(partition, ())):
            waiter.wake()

    def wake_all(self) -> None:
        """The broker stops: every waiter looks again, and answers."""
        for waiters in tuple(self.table.values()):
            for waiter in tuple(waiters):
                waiter.wake()
