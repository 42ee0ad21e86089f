"""Searches by timestamp, in worker threads: each reads records, perhaps compressed, and indexes that are not in memory yet.

A search reads up to a whole segment, so it is done in pieces: after some milliseconds in a thread, a request waits for its next
turn, and may be cancelled. In each data directory an address has at most one of the two threads. So neither many searches of
one client nor a long one block other clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

import trio

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.logs import log_reader
from ...storage.logs.log import Log
from ...storage.logs.log_reader import FoundOffset
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice

# Time that one request may use a thread before others get it.
SEARCHING_S = 0.05
SEARCHES_AT_ONCE_MAX = 1000


@dataclass(slots=True)
class Search:
    """A search whose answer needs records."""

    log: Log
    steps: log_reader.Search
    found: FoundOffset | KafkaError | None = None

    def run(self, until_s: float) -> bool:
        """Run to the end, or until a time of `perf_counter`. Return whether it has reached the end."""
        try:
            while True:
                next(self.steps)
                if perf_counter() >= until_s:
                    return False
        except StopIteration as end:
            self.found = end.value
        except KafkaError as error:
            self.found = error.with_traceback(None)  # the traceback names this frame, and so the search
        return True


class Searches:
    """Searches of all connections."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], trio.Lock] = {}
        """Locks of the running and waiting searches, by data directory and address."""

    async def run(self, searches: Sequence[Search], address: str, check: Callable[[], None]) -> None:
        """Run all searches to their ends. `check` is called between two pieces; its exceptions end the search."""
        time_slice = TimeSlice()
        in_each_data_dir: dict[str, list[Search]] = {}
        async for search in time_slice.each(searches):
            in_each_data_dir.setdefault(data_dir_of(search.log), []).append(search)
        for data_dir, those in in_each_data_dir.items():
            done = 0
            while done < len(those):
                some = those[done : done + SEARCHES_AT_ONCE_MAX]
                async with self._place(data_dir, address):
                    done += await in_thread(Work.SEARCH, data_dir, _run_some, some)
                if done < len(those):
                    check()

    @asynccontextmanager
    async def _place(self, data_dir: str, address: str) -> AsyncIterator[None]:
        key = data_dir, address
        place = self._places.setdefault(key, trio.Lock())
        try:
            async with place:
                yield
        finally:
            if not place.locked():  # and no request waits for it
                self._places.pop(key, None)


def _run_some(searches: Sequence[Search]) -> int:
    """Run the first of these searches, and return how many have reached their ends. After that another request gets the
    thread."""
    until_s = perf_counter() + SEARCHING_S
    for count, search in enumerate(searches):
        if not search.run(until_s):
            return count
        if perf_counter() >= until_s:
            return count + 1
    return len(searches)
