"""How many passes the event loop makes while something is done: the same in every run, unlike the time that others wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio


class Passes:
    """So many so far."""

    count = 0


@asynccontextmanager
async def counting_passes(between: Callable[[], object] = lambda: None) -> AsyncIterator[Passes]:
    """Count them from entry to exit, in a task of its own; `between` comes in each."""
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
