"""A nursery whose single error comes out as it is: users of a broker write `except ValueError`, not `except*`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_plain_nursery() -> AsyncIterator[trio.Nursery]:
    """As `trio.open_nursery`; where one error comes out of the nursery, it is not wrapped in a group.

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
