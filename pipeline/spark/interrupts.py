"""Ctrl-C, while the JVM is asked something: Spark's own handler asks it, too, over the same connection, and that ends in stacks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_deferred() -> Iterator[Callable[[], bool]]:
    """SIGINT counts only at the end of this: a JVM whose launcher is interrupted lives on with nobody to end it. Yields whether
    there has been one, for who would rather not wait so long.

    Raises:
        KeyboardInterrupt: There was one, and all went well.
    """
    noted: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so is it for the JVM
        yield lambda: False
        return

    def note(number: int, _frame: object) -> None:
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else Spark's own has taken its place, and cancels jobs first
            signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt
