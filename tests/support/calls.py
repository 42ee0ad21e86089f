"""How much work something is, as the number of calls of functions: the same in every run, unlike its time."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Counted:
    """`calls` of functions, those of C included."""

    calls = 0

    def note(self, _frame: FrameType, event: str, _argument: object) -> None:
        self.calls += event.endswith("call")


def calls_of(work: Callable[[], object]) -> int:
    """How many functions `work` calls in this thread, those of C included; not the finalizers of what others left behind."""
    with calls_counted() as counted:
        work()
    return counted.calls


@contextmanager
def calls_counted() -> Iterator[Counted]:
    """Of this thread, as `calls_of` has it, for the time of the block: once that has ended the figure is whole."""
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
    """Fail in the midst of what goes round for ever: after so many calls of functions in this thread."""
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
