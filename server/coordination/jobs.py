"""Work of a coordinator over many things, in pieces, so that requests come in between.

A job is a generator. What it does up to a `yield` is one piece, short and done for everybody at once; what it knew before
the `yield` may be otherwise after it, so it looks everything up again, and never carries a decision over to the next piece.
A coordinator's own jobs (expiry, a deleted topic, what is left to do after a load) are pursued by `run`; those of a request
by its handler (`runtime.time_slices.run_cooperatively`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from heapq import merge
from itertools import islice
from typing import TypeAlias, TypeVar

from ...protocol.errors import KafkaError
from ...storage.steps import A_PIECE, Steps, to_the_end

__all__ = ["AT_ONCE", "A_PIECE", "IsOver", "Job", "Jobs", "Steps", "for_each", "in_order", "never", "to_the_end"]

log = logging.getLogger("ottla.coordination")

AT_ONCE = 500
"""Small things, such as names of topics, that are gone through in one piece: a millisecond."""

Thing = TypeVar("Thing")
Ordered = TypeVar("Ordered", int, str, bytes, tuple[bytes, int], tuple[float, int, bytes])
Job: TypeAlias = Steps[None]

IsOver: TypeAlias = Callable[[], bool]
"""Whether the caller's time slice is over (`TimeSlice.is_over`)."""


def never() -> bool:
    """`IsOver` of who may work to the end."""
    return False


class Jobs:
    """The jobs under way, each with a turn in its order.

    Args:
        on_earlier: Called when there is a job and was none.
    """

    def __init__(self, on_earlier: Callable[[], None] = lambda: None) -> None:
        self._on_earlier = on_earlier
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> None:
        """Have the job done by the next calls of `run`."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._on_earlier()

    def clear(self) -> None:
        """Leave all jobs where they are."""
        self._jobs.clear()

    def run(self, is_over: IsOver) -> None:
        """Do pieces until it `is_over`, one at least. A job that raises is given up; the others go on in the next call."""
        jobs = self._jobs
        while jobs:
            job = jobs.popleft()
            for _ in job:
                if is_over():
                    jobs.append(job)
                    return
            if is_over():
                return


def in_order(things: Iterable[Ordered]) -> Steps[list[Ordered]]:
    """`sorted(things)`; of what they are taken from nothing may come or go meanwhile."""
    left, runs = iter(things), list[list[Ordered]]()
    while len(run := sorted(islice(left, AT_ONCE))) == AT_ONCE:
        runs.append(run)
        yield
    if not runs:
        return run
    runs.append(run)
    merged, found = merge(*runs), list[Ordered]()
    while some := list(islice(merged, AT_ONCE)):
        found += some
        yield
    return found


def for_each(things: Collection[Thing], act: Callable[[Thing], Job], failing: str) -> Job:
    """Do it for each: one for which it fails keeps no other from it, and is told in one line with `failing`."""
    first, count = None, 0
    for thing in things:
        try:
            yield from act(thing)
        except Exception as error:  # noqa: BLE001 - told below
            first, count = first or error, count + 1
        yield
    if first is not None:
        is_known = isinstance(first, KafkaError)
        log.warning(
            "%s (%d of %d failed): %s", failing, count, len(things), first, exc_info=None if is_known else first
        )
