"""The bytes that all connections together may hold of frames larger than a connection's first buffer.

`queued.max.request.bytes` of Kafka, counted as the bytes come, not as they are announced. One address may hold half of it.
A connection that finds no room waits, unread, so the limit reaches the client as TCP back-pressure.

Connections that each hold a part of a frame and wait for the rest could wait for one another for ever. So one of those
that wait, and no other before its frame is done with, may go beyond the limit: as in Apache Kafka, whose pool may be
exceeded by one request, the bound is the limit and one frame. Addresses come to their turn one after the other, the
connections of an address in order.

While anybody waits, nobody keeps memory for later, and who stands still gives up its place.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from itertools import islice
from typing import Protocol

import trio

from ..runtime.time_slices import TimeSlice
from .transport import PeerGoneError

STANDS_STILL_S = 10.0
"""In which a connection has to bring what it was given room for (64 KiB to 2 MiB), while others wait. Who goes beyond the
limit has to bring its whole frame in it."""
LOOK_EVERY_S = 1.0
SHRINK_AT_ONCE = 64
"""Of those that keep memory for later, when somebody comes who has to wait. `run` asks all of them, in turns."""


class Holder(Protocol):
    """A connection that holds memory, or waits for it."""

    address: str
    held_bytes: int

    @property
    def is_receiving(self) -> bool:
        """Whether it waits for bytes of its client: a frame that is being worked on is not its client's to hurry."""

    def shrink(self) -> None:
        """Give back all that it holds for later."""

    def give_up(self, reason: str) -> None:
        """End; what it holds comes back as soon as its task runs."""


class RequestMemory:
    """See the module. All on Trio's thread and by Trio's time; `run` is the task that looks who stands still."""

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
        """Whether anybody waits."""
        self._by_address: Counter[str] = Counter()
        self._granted_s: dict[Holder, float] = {}
        """When each that holds anything was given room for the last time; who is beyond the limit, for the first time."""
        self._beyond: Holder | None = None
        self._waiting: OrderedDict[str, OrderedDict[Holder, _Wait]] = OrderedDict()
        self._became_short = trio.lowlevel.ParkingLot() if became_short is None else became_short
        """Where whoever looks waits; several memories may share one who does."""

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def take_now(self, holder: Holder, size_bytes: int) -> bool:
        """Let `holder` have `size_bytes` more, if that needs no waiting."""
        if holder is not self._beyond and (self.is_short or not self._fits(holder.address, size_bytes)):
            return False
        self._give(holder, size_bytes)
        return True

    async def take(self, holder: Holder, size_bytes: int) -> None:
        """Let `holder` have `size_bytes` more, waiting for room.

        Raises:
            PeerGoneError: `stop_waiting` was called meanwhile.
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
        """Take `size_bytes` back from `holder`, and let others in."""
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
        """Whatever `holder` waits for, it will not have."""
        waiting = self._waiting.get(holder.address)
        if waiting is not None and (wait := waiting.get(holder)) is not None:
            self._leave(holder)
            wait.over.set()
            self._serve()

    async def run(self) -> None:
        """While anybody waits, end who stands still. Until cancelled."""
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
        """For `run`, or for who looks after several of these in its stead."""
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
        """Let in who fits, addresses in turn; then one who does not, if nobody is beyond the limit."""
        with_their_share = 0
        while with_their_share < len(self._waiting):
            holder, wait = self._next()
            if self.used_bytes + wait.size_bytes > self.limit_bytes:
                break
            if self._fits(holder.address, wait.size_bytes):
                self._let_in(holder, wait)
            else:
                self._waiting.move_to_end(holder.address)
                with_their_share += 1
        if self._waiting and self._beyond is None:
            holder, wait = self._next()
            self._let_in(holder, wait)
            self._beyond = holder

    def _next(self) -> tuple[Holder, _Wait]:
        return next(iter(next(iter(self._waiting.values())).items()))

    def _let_in(self, holder: Holder, wait: _Wait) -> None:
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
