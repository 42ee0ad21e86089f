"""The thread for work that is all Python: JSON of megabytes, the text of ten thousand partitions' metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

Given = TypeVar("Given")
Result = TypeVar("Result")

_LIMITER: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("the admin listener's thread")


async def in_worker(work: Callable[[Given], Result], given: Given) -> Result:
    """`work(given)`, which may take a second or two: one at a time, as threads of Python's only take from each other."""
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = trio.CapacityLimiter(1)
        _LIMITER.set(limiter)
    return await trio.to_thread.run_sync(work, given, limiter=limiter)
