"""How far a job is: its steps, each of so many pieces, counted by whoever does them. Nothing that was written is read to find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Add = Callable[[int], object]
"""Counts so many pieces that are done; sent to tasks."""
Counter = tuple[Add, Callable[[], int]]
"""What counts, and how many have been counted."""


class Step(NamedTuple):
    """One step of a job, which may not have begun."""

    name: str
    """Of its pieces, and what becomes of them: `segments scanned`."""
    total: int
    counted: Callable[[], int]

    def done(self) -> int:
        """A piece that is done again, as Spark does what was lost with an executor, is counted again."""
        return min(self.counted(), self.total)

    def __str__(self) -> str:
        return f"{self.name} {self.done()} of {self.total}"


def counted_here() -> Counter:
    """For work in this process."""
    count = 0

    def add(number: int) -> None:
        nonlocal count
        count += number

    return add, lambda: count


class Watch:
    """The steps of one job, as it comes to know of them."""

    def __init__(self, about: str = "", counter: Callable[[], Counter] = counted_here) -> None:
        """
        Args:
            about: The partition, or what else the job works on.
            counter: Makes what each step counts with.
        """
        self.about = about
        self.steps: tuple[Step, ...] = ()
        self._counter = counter

    def begin(self, about: str) -> None:
        """It goes on with something else; the steps so far are done."""
        self.about, self.steps = about, ()

    def step(self, name: str, total: int) -> Add:
        """One more step, of so many pieces."""
        add, counted = self._counter()
        self.steps += (Step(name, total, counted),)
        return add

    def __str__(self) -> str:
        """`orders-0: segments scanned 312 of 400, buckets merged 0 of 40`: those of the steps that are not done."""
        steps = [str(step) for step in self.steps if step.done() < step.total]
        return f"{self.about}: {', '.join(steps)}" if steps else ""


def nobody_counts() -> Counter:
    """For tasks of which nothing is known before they end: what they are sent is a function that does nothing."""
    return _let_go, _nothing


class _Unwatched(Watch):
    def begin(self, about: str) -> None: ...

    def step(self, name: str, total: int) -> Add:
        return _let_go


UNWATCHED: Watch = _Unwatched()
"""Of a job that nobody watches: nothing is counted, and tasks are sent a function that does nothing."""


def _let_go(_number: int) -> None:
    pass


def _nothing() -> int:
    return 0
