"""Addresses of hosts that options and quotas name. A resolver may take its time, and is asked off Trio's thread."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from functools import partial

import trio

from ..quotas.validation import is_literal_address
from ..runtime.time_slices import TimeSlice

RESOLVED_AT_ONCE = 4
"""One that its resolver never answers keeps its thread."""
RESOLVED_WITHIN_S = 10.0
"""All names of hosts of one request, together; those that are not found by then count as none."""


class Hosts:
    """Who asks, for one broker."""

    def __init__(self) -> None:
        self._resolving = trio.CapacityLimiter(RESOLVED_AT_ONCE)

    async def addresses(self, names: Iterable[str | None]) -> dict[str, str]:
        """Of those that are no addresses themselves, and that are found in time."""
        found: dict[str, str] = {}
        time_slice = TimeSlice()
        distinct = await time_slice.once(names)
        with trio.move_on_after(RESOLVED_WITHIN_S):
            async for name in time_slice.each(distinct):
                if name and not is_literal_address(name):
                    address = await trio.to_thread.run_sync(
                        partial(resolve, name), limiter=self._resolving, abandon_on_cancel=True
                    )
                    if address is not None:
                        found[name] = address
        return found


def resolve(name: str) -> str | None:
    """The address of a host, of IPv4 if it has one, as Java prefers them; None if it has none. Blocks."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # UnicodeError among them: no name of a host
        return None
    return str(min(found, key=lambda each: each[0] != socket.AF_INET)[4][0])
