"""Progress of a job: its steps and their pieces, counted by the code that does them. No file is read for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Add = Callable[[int], object]
"""Count this many finished pieces. It is sent to tasks."""
Counter = tuple[Add, Callable[[], int]]
"""A function that counts, and one that returns the count."""


class Step(NamedTuple):
    """One step of a job, which may not have begun."""

    name: str
    """Noun of the pieces and what is done with them: `segments scanned`."""
    total: int
    counted: Callable[[], int]

    def done(self) -> int:
        """Return the number of pieces done, at most `total`: Spark repeats pieces that were lost with an executor."""
        return min(self.counted(), self.total)

    def __str__(self) -> str:
        return f"{self.name} {self.done()} of {self.total}"


def counted_here() -> Counter:
    """Return a counter for work in this process."""
    count = 0

    def add(number: int) -> None:
        nonlocal count
        count += number

    return add, lambda: count


class Watch:
    """Steps of one job, added as they begin."""

    def __init__(self, about: str = "", counter: Callable[[], Counter] = counted_here) -> None:
        """
        Args:
            about: The partition, or what else the job works on.
            counter: Makes what each step counts with.
        """
        self.about = about
        self.steps: tuple[Step, ...] = ()
        self.running: Callable[[], str] = str
        """Return the step that runs now, for work that Spark itself divides; empty if none does."""
        self._counter = counter

    def begin(self, about: str) -> None:
        """Continue with another part of the job. The steps so far are done."""
        self.about, self.steps = about, ()

    def step(self, name: str, total: int) -> Add:
        """Add a step of `total` pieces, and return the function that counts them."""
        add, counted = self._counter()
        self.steps += (Step(name, total, counted),)
        return add

    def __str__(self) -> str:
        """Format the steps that are not done: `orders-0: segments scanned 312 of 400, buckets merged 0 of 40`."""
        steps = [str(step) for step in self.steps if step.done() < step.total]
        steps += [running] if (running := self.running()) else []
        return f"{self.about}: {', '.join(steps)}" if steps else ""


def nobody_counts() -> Counter:
    """Return a counter for tasks that report nothing before they end: they are sent a function that does nothing."""
    return _ignore, _nothing


class _Unwatched(Watch):
    def begin(self, about: str) -> None: ...

    def step(self, name: str, total: int) -> Add:
        return _ignore


UNWATCHED: Watch = _Unwatched()
"""Steps of a job without progress: nothing is counted, and tasks are sent a function that does nothing."""


def _ignore(_number: int) -> None:
    pass


def _nothing() -> int:
    return 0
