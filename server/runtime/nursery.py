"""Nurseries: one whose single error comes out as it is, and one that others start tasks in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from .threads import Arguments


@asynccontextmanager
async def open_plain_nursery() -> AsyncIterator[trio.Nursery]:
    """As `trio.open_nursery`; where one error comes out of the nursery, it is not wrapped in a group: users of a broker write
    `except ValueError`, not `except*`.

    Raises:
        BaseExceptionGroup: Several errors came out of it.
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
    """Where rooms start tasks that live as long as the broker serves."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery
        """Set by the broker when it begins to serve."""

    def start_soon(self, task: Callable[[*Arguments], Awaitable[object]], *arguments: *Arguments) -> None:
        """As `trio.Nursery.start_soon`."""
        self.nursery.start_soon(task, *arguments)
