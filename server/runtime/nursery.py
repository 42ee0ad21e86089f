"""Nurseries: one that raises a single error as it is, and one in which other modules start tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from .threads import Arguments


@asynccontextmanager
async def open_plain_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose single error is not wrapped in a group, unlike with `trio.open_nursery`: users of a broker write
    `except ValueError`, not `except*`.

    Raises:
        BaseExceptionGroup: Several tasks raised errors.
    """
    lone: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        lone = group.exceptions[0]
    # Outside of the handler, so that the group does not become the error's context.
    if lone is not None:
        raise lone


class Tasks:
    """The nursery of tasks that live as long as the broker serves."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery
        """Set by the broker when it begins to serve."""

    def start_soon(self, task: Callable[[*Arguments], Awaitable[object]], *arguments: *Arguments) -> None:
        """Start a task, as `trio.Nursery.start_soon` does."""
        self.nursery.start_soon(task, *arguments)
