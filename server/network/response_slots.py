"""Limit on responses in the making, per API: a request of a few bytes may ask for megabytes of objects.

A response with all topics, groups or configurations is made in time slices, and then waits for the worker thread that writes it
(`large_requests`). Thousands of connections may ask for one at once. So of each API whose responses are not bounded by what
their requests name, only PLACES responses are in the making at a time, half of them for one address. Other requests wait before
their handlers begin, addresses in turn. Most responses need one slice and leave their place at once. A connection that has had
its place for COUNTS_S while others wait loses it: it waits for a disk that the others may not need.

APIs that park their requests are not listed. Fetch is bounded by the partitions of its sessions.
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


class ResponseSlots(dict[int, RequestMemory]):
    """The places of each of the UNBOUNDED APIs, by API key. The unit is a response."""

    def __init__(self) -> None:
        self._became_short = trio.lowlevel.ParkingLot()
        super().__init__(
            {key: RequestMemory(PLACES, stands_still_s=COUNTS_S, became_short=self._became_short) for key in UNBOUNDED}
        )

    async def run(self) -> None:
        """While a connection waits for a place, take the places of those that have had one for long. Until cancelled. One task
        serves all APIs, as each task makes a start slower."""
        while True:
            if not any(places.is_short for places in self.values()):
                await self._became_short.park()
            await trio.sleep(LOOK_EVERY_S)
            for places in self.values():
                await places.end_who_stands_still()


class AnswerPlace:
    """The place of one connection, which makes one response at a time."""

    is_receiving = True  # For `RequestMemory`: its place may be taken away.

    def __init__(self, address: str) -> None:
        self.address = address
        self.held_bytes = 0  # The name is that of `RequestMemory`: whether it has a place.
        self._places: RequestMemory | None = None

    async def take(self, places: RequestMemory) -> None:
        """Take a place. Raises trio.BrokenResourceError if `stop_waiting` is called during the wait."""
        self._places = places
        if not places.take_now(self, 1):
            await places.take(self, 1)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Release the place, if the connection has one, while the block runs, and take one again afterwards."""
        places = self._places if self.held_bytes else None
        self.leave()
        yield
        if places is not None:
            await self.take(places)

    def leave(self) -> None:
        """Release the place. May be called again."""
        if self._places is not None:
            self._places.give_back(self, self.held_bytes)

    def stop_waiting(self) -> None:
        """Stop waiting; the connection is closed."""
        if self._places is not None:
            self._places.stop_waiting(self)

    def shrink(self) -> None:
        """Do nothing: a place is never kept for later."""

    def give_up(self, _reason: str) -> None:
        """Lose the place, which the connection has had for long."""
        self.leave()
