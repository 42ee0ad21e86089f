"""Searches by timestamp, in worker threads: each takes records, which may have to be unpacked, and indexes that nobody has read.

What a search has to go over is bounded by the size of a segment alone, so it is done in pieces: whoever has had a thread for
some milliseconds stands in line again, and may leave it. In each data directory an address has one thread of the two there
are, so that neither many searches of one client nor a long one keep others from theirs.
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

# How long one request may have a thread before others get it.
SEARCHING_S = 0.05
SEARCHES_AT_ONCE_MAX = 1000


@dataclass(slots=True)
class Search:
    """A question that only a look at records can answer."""

    log: Log
    steps: log_reader.Search
    found: FoundOffset | KafkaError | None = None

    def run(self, until_s: float) -> bool:
        """Go on until the end, or a moment of `perf_counter`. Whether that was the end."""
        try:
            while True:
                next(self.steps)
                if perf_counter() >= until_s:
                    return False
        except StopIteration as end:
            self.found = end.value
        except KafkaError as error:
            self.found = error.with_traceback(None)  # which names this frame, and so the search
        return True


class Searches:
    """Those of all connections."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], trio.Lock] = {}
        """Of those who search: data directory, address."""

    async def run(self, searches: Sequence[Search], address: str, check: Callable[[], None]) -> None:
        """Bring all of them to their ends. `check` is asked between two pieces, and ends it by what it raises."""
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
            if not place.locked():  # nor does anybody wait for it
                self._places.pop(key, None)


def _run_some(searches: Sequence[Search]) -> int:
    """Go on with the first of these; returns how many came to their ends. Then it is somebody else's turn to have the thread."""
    until_s = perf_counter() + SEARCHING_S
    for count, search in enumerate(searches):
        if not search.run(until_s):
            return count
        if perf_counter() >= until_s:
            return count + 1
    return len(searches)
