"""The memory of answers that their clients do not take.

A small request may have an answer of megabytes, and a client may leave it lying until it counts as idle, or take a byte now
and then and never do. So answers beyond what a socket's buffers hold are counted, and while all of them together have more
than a limit, those that have lain for some seconds go, with their connections: of the address with most bytes the oldest
first. Slices of files are not counted: they are no memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heapreplace
from typing import Protocol

import trio

from ...storage.disk.files import FileSlice
from ..runtime.time_slices import TimeSlice
from .transport import Part

COUNTED_BYTES_MIN = 64 << 10
"""Smaller answers cost no more than the connection itself."""
MAY_LIE_S = 10.0
LOOK_EVERY_S = 1.0


class Sender(Protocol):
    """A connection whose answer is under way."""

    def give_up(self, reason: str) -> None:
        """End; its answer goes as soon as its task runs."""


def memory_bytes(parts: Sequence[Part]) -> int:
    """What an answer takes of the memory."""
    size_bytes = 0
    for part in parts:  # mostly one, for which a generator would cost more than it adds up
        if not isinstance(part, FileSlice):
            size_bytes += len(part)
    return size_bytes


class UnsentAnswers:
    """See the module. All on Trio's thread and by Trio's time; `run` is the task that looks."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._answers: dict[Sender, _Answer] = {}
        """Oldest first."""
        self._became_many = trio.lowlevel.ParkingLot()

    @contextmanager
    def lying(self, sender: Sender, address: str, size_bytes: int) -> Iterator[None]:
        """While `sender` sends an answer of so many bytes."""
        self._answers[sender] = _Answer(address, size_bytes, trio.current_time())
        self.used_bytes += size_bytes
        if self.used_bytes > self.limit_bytes:
            self._became_many.unpark_all()
        try:
            yield
        finally:
            del self._answers[sender]
            self.used_bytes -= size_bytes

    async def run(self) -> None:
        """Look while there are too many. Until cancelled."""
        while True:
            if self.used_bytes <= self.limit_bytes:
                await self._became_many.park()
            await self._end_oldest()
            await trio.sleep(LOOK_EVERY_S)

    async def _end_oldest(self) -> None:
        time_slice = TimeSlice()
        before_s = trio.current_time() - MAY_LIE_S
        left_bytes = self.used_bytes
        of_address: Counter[str] = Counter()
        old: dict[str, deque[tuple[Sender, _Answer]]] = {}
        async for sender, answer in time_slice.each(list(self._answers.items())):
            of_address[answer.address] += answer.size_bytes
            if answer.since_s <= before_s:
                old.setdefault(answer.address, deque()).append((sender, answer))
        most = [(-of_address[address], address) for address in old]
        heapify(most)
        while most and left_bytes > self.limit_bytes:
            if time_slice.is_over():
                await time_slice.next()
            address = most[0][1]
            sender, answer = old[address].popleft()
            of_address[address] -= answer.size_bytes
            left_bytes -= answer.size_bytes
            if old[address]:
                heapreplace(most, (-of_address[address], address))
            else:
                heappop(most)
            if self._answers.get(sender) is answer:  # else it has been sent meanwhile
                sender.give_up(
                    f"client did not read a response of {answer.size_bytes} bytes for {MAY_LIE_S:.0f} s; limit of"
                    f" {self.limit_bytes} bytes for unsent responses exceeded"
                )


class _Answer:
    __slots__ = ("address", "since_s", "size_bytes")

    def __init__(self, address: str, size_bytes: int, since_s: float) -> None:
        self.address, self.size_bytes, self.since_s = address, size_bytes, since_s
