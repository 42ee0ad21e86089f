"""Work of a coordinator on many things, in pieces, so that requests can run in between.

A job is a generator. Its work up to a `yield` is one piece, which is short and atomic. State may change during a `yield`, so a
job looks everything up again after it, and takes no decision over to the next piece. `run` runs a coordinator's own jobs
(expiry, a deleted topic, the work after a load). A request's handler runs the request's jobs
(`runtime.time_slices.run_cooperatively`).
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
"""Number of small things, such as names of topics, that one piece handles in about a millisecond."""

Thing = TypeVar("Thing")
Ordered = TypeVar("Ordered", int, str, bytes, tuple[bytes, int], tuple[float, int, bytes])
Job: TypeAlias = Steps[None]

IsOver: TypeAlias = Callable[[], bool]
"""Function that returns whether the caller's time slice is over (`TimeSlice.is_over`)."""


def never() -> bool:
    """Return False: the `IsOver` of callers that may work to the end."""
    return False


class Jobs:
    """The started jobs of a coordinator, run in turn.

    Args:
        on_earlier: Function that is called when a job is started and no other was left.
    """

    def __init__(self, on_earlier: Callable[[], None] = lambda: None) -> None:
        self._on_earlier = on_earlier
        self._jobs: deque[Job] = deque()

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, job: Job) -> None:
        """Let the next calls of `run` run the job."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._on_earlier()

    def clear(self) -> None:
        """Drop all jobs, finished or not."""
        self._jobs.clear()

    def run(self, is_over: IsOver) -> None:
        """Run pieces of jobs: at least one, and then until `is_over()`. A job that raises is dropped; the others continue in
        the next call."""
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
    """Return `sorted(things)`. The source of `things` must not change between the pieces."""
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
    """Run `act` for each thing. A failure does not stop the others; failures are logged in one line with `failing`."""
    first, count = None, 0
    for thing in things:
        try:
            yield from act(thing)
        except Exception as error:  # noqa: BLE001 - logged below
            first, count = first or error, count + 1
        yield
    if first is not None:
        is_known = isinstance(first, KafkaError)
        log.warning(
            "%s (%d of %d failed): %s", failing, count, len(things), first, exc_info=None if is_known else first
        )
