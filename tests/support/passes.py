"""Number of event-loop passes during some work: the same in every run, unlike the time that other tasks wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio


class Passes:
    """The number of passes up to now."""

    count = 0


@asynccontextmanager
async def counting_passes(between: Callable[[], object] = lambda: None) -> AsyncIterator[Passes]:
    """Count the passes from entry to exit, in a task of its own; each pass calls `between`."""
    passes = Passes()

    async def count() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            passes.count += 1
            between()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        yield passes
        nursery.cancel_scope.cancel()
