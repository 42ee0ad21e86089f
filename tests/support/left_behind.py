"""What some work leaves to Python's collector of cycles, and not what others in this process leave meanwhile."""

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

TIMES = 3
"""Clients, sockets and generators of other tests may go in the midst of one; what the work itself leaves is left each time."""
ROUNDS_MAX = 10

_depth = 0


@contextmanager
def older_left_alone() -> Iterator[None]:
    """Have collections within look at what was made within alone."""
    global _depth
    if not _depth:
        leave_alone()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def leave_alone() -> None:
    """Have no collection look at what there is by now: all of a test process takes it a quarter of a second."""
    _collect_all()
    gc.freeze()


async def left_to_the_collector(work: Callable[[], Awaitable[object]], enough: int = 0) -> int:
    """How many objects `work` leaves that only the collector finds: the fewest of several times. It may be done again and again.

    Args:
        enough: It is done no more once it has left so few.
    """
    with older_left_alone():
        # The first time it may replace what was made before, where no collection looks.
        await _left_once(work)
        left = await _left_once(work)
        for _ in range(TIMES - 1):
            if left <= enough:
                break
            left = min(left, await _left_once(work))
        return left


async def _left_once(work: Callable[[], Awaitable[object]]) -> int:
    gc.disable()
    try:
        _collect_all()
        await work()
        return gc.collect()
    finally:
        gc.enable()


def _collect_all() -> None:
    """What finalizers of the first round leave is found by the next."""
    for _ in range(ROUNDS_MAX):
        if not gc.collect():
            break
