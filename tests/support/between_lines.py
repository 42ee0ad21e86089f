"""The states of an unfinished operation that another thread may see: calls `look` wherever another thread may run."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def between_lines(work: Callable[[], object], look: Callable[[], object]) -> None:
    """Do `work`, and call `look` before each of its lines, and whenever one of its functions returns."""

    def trace(_frame: FrameType, _event: str, _argument: object) -> Any:
        look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
