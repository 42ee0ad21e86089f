"""Limit on the bytes that all connections together may hold of frames larger than a connection's first buffer.

This is Kafka's `queued.max.request.bytes`, counted as bytes arrive, not as they are announced. One address may hold half of it.
A connection without room waits, unread, so the limit reaches the client as TCP back-pressure.

Connections that each hold a part of a frame and wait for the rest could wait for one another for ever. So one waiting
connection, and only one until its frame is handled, may exceed the limit. As in Apache Kafka, where one request may exceed the
pool, the bound is the limit and one frame. Addresses take turns; the connections of an address are served in order.

While a connection waits, no other keeps memory for later, and a connection that makes no progress is closed.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from itertools import islice
from typing import Protocol

import trio

from ..runtime.time_slices import TimeSlice
from .transport import PeerGoneError

STANDS_STILL_S = 10.0
"""Time in which a connection must fill the room it was given (64 KiB to 2 MiB), while others wait. The connection beyond the
limit must send its whole frame in this time."""
LOOK_EVERY_S = 1.0
SHRINK_AT_ONCE = 64
"""Holders that are asked to shrink at once when a connection has to wait. `run` asks all of them, in time slices."""


class Holder(Protocol):
    """A connection that holds memory, or waits for it."""

    address: str
    held_bytes: int

    @property
    def is_receiving(self) -> bool:
        """Whether it waits for bytes of its client; False while its frame is being handled, which the client cannot speed
        up."""

    def shrink(self) -> None:
        """Give back all memory that it keeps for later."""

    def give_up(self, reason: str) -> None:
        """Close; its memory is given back as soon as its task runs."""


class RequestMemory:
    """The shared memory. All on Trio's thread and by Trio's time; `run` is the task that finds connections without progress."""

    def __init__(
        self,
        limit_bytes: int,
        *,
        stands_still_s: float = STANDS_STILL_S,
        became_short: trio.lowlevel.ParkingLot | None = None,
    ) -> None:
        self.limit_bytes = limit_bytes
        self._stands_still_s = stands_still_s
        self.address_limit_bytes = limit_bytes // 2
        self.used_bytes = 0
        self.is_short = False
        """Whether a connection waits."""
        self._by_address: Counter[str] = Counter()
        self._granted_s: dict[Holder, float] = {}
        """Time of each holder's last grant; for the one beyond the limit, of its first grant."""
        self._beyond: Holder | None = None
        self._waiting: OrderedDict[str, OrderedDict[Holder, _Wait]] = OrderedDict()
        self._became_short = trio.lowlevel.ParkingLot() if became_short is None else became_short
        """Place where the checking task waits; several memories may share one task."""

    @property
    def waiting(self) -> int:
        """Number of waiting connections."""
        return sum(map(len, self._waiting.values()))

    def take_now(self, holder: Holder, size_bytes: int) -> bool:
        """Give `holder` `size_bytes` more, if that needs no waiting."""
        if holder is not self._beyond and (self.is_short or not self._fits(holder.address, size_bytes)):
            return False
        self._give(holder, size_bytes)
        return True

    async def take(self, holder: Holder, size_bytes: int) -> None:
        """Give `holder` `size_bytes` more, after waiting for room.

        Raises:
            PeerGoneError: `stop_waiting` was called during the wait.
        """
        if self.take_now(holder, size_bytes):
            return
        wait = _Wait(size_bytes)
        self._waiting.setdefault(holder.address, OrderedDict())[holder] = wait
        if not self.is_short:
            self.is_short = True
            self._became_short.unpark_all()
            for each in list(islice(self._granted_s, SHRINK_AT_ONCE)):
                each.shrink()
        self._serve()
        try:
            await wait.over.wait()
        finally:
            self.stop_waiting(holder)
        if not wait.is_granted:
            raise PeerGoneError("closed while waiting for memory")

    def give_back(self, holder: Holder, size_bytes: int) -> None:
        """Take `size_bytes` back from `holder`, and serve waiting connections."""
        if not size_bytes:
            return
        holder.held_bytes -= size_bytes
        self.used_bytes -= size_bytes
        self._by_address[holder.address] -= size_bytes
        if not self._by_address[holder.address]:
            del self._by_address[holder.address]
        if not holder.held_bytes:
            del self._granted_s[holder]
        if self._beyond is not None and (not self._beyond.held_bytes or self.used_bytes <= self.limit_bytes):
            if self._beyond.held_bytes:
                self._granted_s[self._beyond] = trio.current_time()
            self._beyond = None
        self._serve()

    def stop_waiting(self, holder: Holder) -> None:
        """Cancel the wait of `holder`, if any."""
        waiting = self._waiting.get(holder.address)
        if waiting is not None and (wait := waiting.get(holder)) is not None:
            self._leave(holder)
            wait.over.set()
            self._serve()

    async def run(self) -> None:
        """While a connection waits, close those without progress. Until cancelled."""
        while True:
            if not self.is_short:
                await self._became_short.park()
            time_slice = TimeSlice()
            async for each in time_slice.each(list(self._granted_s)):
                if self.is_short and each.held_bytes:
                    each.shrink()
            await trio.sleep(LOOK_EVERY_S)
            await self.end_who_stands_still()

    async def end_who_stands_still(self) -> None:
        """Close connections without progress. For `run`, or for a task that checks several of these memories."""
        before_s = trio.current_time() - self._stands_still_s
        still = [each for each, granted_s in self._granted_s.items() if granted_s < before_s and each.is_receiving]
        for each in still:
            if self.is_short and each.held_bytes:
                each.give_up(
                    f"no progress on a frame of {each.held_bytes} bytes while others wait for memory"
                    f" (queued.max.request.bytes is {self.limit_bytes})"
                )
            await trio.lowlevel.checkpoint()

    def _fits(self, address: str, size_bytes: int) -> bool:
        return (
            self.used_bytes + size_bytes <= self.limit_bytes
            and self._by_address[address] + size_bytes <= self.address_limit_bytes
        )

    def _give(self, holder: Holder, size_bytes: int) -> None:
        holder.held_bytes += size_bytes
        self.used_bytes += size_bytes
        self._by_address[holder.address] += size_bytes
        if holder is not self._beyond:
            self._granted_s[holder] = trio.current_time()

    def _serve(self) -> None:
        """Serve the waiting holders that fit, addresses in turn; then one that does not fit, if none is beyond the limit."""
        with_their_share = 0
        while with_their_share < len(self._waiting):
            holder, wait = self._next()
            if self.used_bytes + wait.size_bytes > self.limit_bytes:
                break
            if self._fits(holder.address, wait.size_bytes):
                self._admit(holder, wait)
            else:
                self._waiting.move_to_end(holder.address)
                with_their_share += 1
        if self._waiting and self._beyond is None:
            holder, wait = self._next()
            self._admit(holder, wait)
            self._beyond = holder

    def _next(self) -> tuple[Holder, _Wait]:
        return next(iter(next(iter(self._waiting.values())).items()))

    def _admit(self, holder: Holder, wait: _Wait) -> None:
        self._leave(holder)
        if holder.address in self._waiting:
            self._waiting.move_to_end(holder.address)
        self._give(holder, wait.size_bytes)
        wait.is_granted = True
        wait.over.set()

    def _leave(self, holder: Holder) -> None:
        waiting = self._waiting[holder.address]
        del waiting[holder]
        if not waiting:
            del self._waiting[holder.address]
        self.is_short = bool(self._waiting)


class _Wait:
    __slots__ = ("is_granted", "over", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.over = trio.Event()
        self.is_granted = False
