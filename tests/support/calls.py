"""The amount of work, as the number of function calls: it is the same in every run, unlike the time."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Counted:
    """`calls` of functions, including those written in C."""

    calls = 0

    def note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.calls += event.endswith("call")


def calls_of(work: Callable[[], object]) -> int:
    """Return the number of functions that `work` calls in this thread, including C functions.

    Finalizers of older objects do not count.
    """
    with calls_counted() as counted:
        work()
    return counted.calls


@contextmanager
def calls_counted() -> Iterator[Counted]:
    """Count the calls of this thread during the block, as `calls_of` does. The figure is complete once the block has ended."""
    counted = Counted()
    gc.disable()
    sys.setprofile(counted.note)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        gc.enable()


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fail after this number of function calls in this thread, so that an endless loop ends."""
    left = calls

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        left -= event.endswith("call")
        if left < 0:
            sys.setprofile(None)
            raise AssertionError(f"more than {calls} calls")

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
