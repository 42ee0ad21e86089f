"""What some work leaves to Python's collector of cycles, and not what others in this process leave meanwhile."""

import gc
from collections.abc import Awaitable, Callable

TIMES = 3
"""Clients, sockets and generators of other tests may go in the midst of one; what the work itself leaves is left each time."""
ROUNDS_MAX = 10


async def left_to_the_collector(work: Callable[[], Awaitable[object]]) -> int:
    """How many objects `work` leaves that only the collector finds: the fewest of several times. It may be done again and again."""
    return min([await _left_once(work) for _ in range(TIMES)])


async def _left_once(work: Callable[[], Awaitable[object]]) -> int:
    gc.disable()
    try:
        # What finalizers of the first round leave is found by the next.
        for _ in range(ROUNDS_MAX):
            if not gc.collect():
                break
        await work()
        return gc.collect()
    finally:
        gc.enable()
