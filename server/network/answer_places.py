"""How many answers of one kind are in the making, where a few bytes may ask for megabytes of objects.

An answer of all topics, groups or configurations is made in turns beside those of others, and then waits for the worker thread
that writes it (`large_requests`). Thousands of connections may ask for it at once. So of each API whose answers are not bounded
by what their requests name, so many are in the making at a time, half of them for one address; others wait before their
handlers begin, addresses in turn. Most answers need no second turn and leave their places at once. Who has had one for some
seconds while others wait does not count any more: it waits for a disk, on which theirs need not lie.

APIs that park their requests are not among these. Fetch is bounded by the partitions of its sessions.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from .request_memory import LOOK_EVERY_S, RequestMemory

PLACES = 32
COUNTS_S = 5.0

UNBOUNDED = {
    3: "Metadata",
    9: "OffsetFetch",
    15: "DescribeGroups",
    16: "ListGroups",
    29: "DescribeAcls",
    32: "DescribeConfigs",
    35: "DescribeLogDirs",
    41: "DescribeDelegationToken",
    43: "ElectLeaders",
    46: "ListPartitionReassignments",
    48: "DescribeClientQuotas",
    61: "DescribeProducers",
    65: "DescribeTransactions",
    66: "ListTransactions",
    69: "ConsumerGroupDescribe",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    89: "StreamsGroupDescribe",
}


class AnswerPlaces(dict[int, RequestMemory]):
    """The places of each of these APIs, by API key. The unit is an answer."""

    def __init__(self) -> None:
        self._became_short = trio.lowlevel.ParkingLot()
        super().__init__(
            {key: RequestMemory(PLACES, stands_still_s=COUNTS_S, became_short=self._became_short) for key in UNBOUNDED}
        )

    async def run(self) -> None:
        """While anybody waits for a place, take those of who has had one for long. Until cancelled. One task for all of them:
        a start waits for each task that it begins."""
        while True:
            if not any(places.is_short for places in self.values()):
                await self._became_short.park()
            await trio.sleep(LOOK_EVERY_S)
            for places in self.values():
                await places.end_who_stands_still()


class AnswerPlace:
    """That of one connection, which makes one answer at a time."""

    is_receiving = True  # For `RequestMemory`: its place may be taken from it.

    def __init__(self, address: str) -> None:
        self.address = address
        self.held_bytes = 0  # As `RequestMemory` calls it: whether it has a place.
        self._places: RequestMemory | None = None

    async def take(self, places: RequestMemory) -> None:
        """Have a place. Raises PeerGoneError if `stop_waiting` is called meanwhile."""
        self._places = places
        if not places.take_now(self, 1):
            await places.take(self, 1)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let others have it, if it has one, while the block runs, and have one again behind it."""
        places = self._places if self.held_bytes else None
        self.leave()
        yield
        if places is not None:
            await self.take(places)

    def leave(self) -> None:
        """Give it to others. May be called again."""
        if self._places is not None:
            self._places.give_back(self, self.held_bytes)

    def stop_waiting(self) -> None:
        """Wait no longer; the connection is closed."""
        if self._places is not None:
            self._places.stop_waiting(self)

    def shrink(self) -> None:
        """Nothing is held for later."""

    def give_up(self, _reason: str) -> None:
        """It has had its place for long."""
        self.leave()
