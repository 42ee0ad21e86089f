"""Handling of Ctrl-C during a call to the JVM: Spark's own handler would use the same connection and fail with stack traces."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Iterator[Callable[[], bool]]:
    """Defer SIGINT to the end of the block, as a JVM whose launcher is interrupted would run on without a process to end it.

    Yields a function that returns whether SIGINT has arrived, so that the block can end early.

    Raises:
        KeyboardInterrupt: SIGINT arrived, and the block ended without an error.
    """
    noted: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # the JVM ignores it as well
        yield lambda: False
        return

    def note(number: int, _frame: object) -> None:
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else Spark's own handler has replaced it, and cancels jobs first
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt
