"""The objects that some work leaves to Python's cycle collector, without those that other code leaves at the same time."""

import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

TIMES = 3
"""Number of repetitions. Objects of other tests may be freed during one of them; the work itself leaves the same each time."""
ROUNDS_MAX = 10

_depth = 0


@contextmanager
def older_left_alone() -> Iterator[None]:
    """Let collections in the block look only at objects that were created in it."""
    global _depth
    if not _depth:
        leave_alone()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def leave_alone() -> None:
    """Let no collection look at existing objects: walking all of a test process takes a quarter of a second."""
    _collect_all()
    gc.freeze()


async def left_to_the_collector(work: Callable[[], Awaitable[object]], enough: int = 0) -> int:
    """Return the number of objects that `work` leaves and only the collector finds: the fewest of several runs.

    Args:
        enough: Stop repeating once `work` has left this few.
    """
    with older_left_alone():
        # The first run may replace older objects, at which no collection looks.
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
    """Collect until nothing is found: finalizers of one round leave objects for the next."""
    for _ in range(ROUNDS_MAX):
        if not gc.collect():
            break
