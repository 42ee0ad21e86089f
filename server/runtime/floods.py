"""Lines of a log that clients can bring about as often as they like: so many a second are told, the others stand at DEBUG only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

TOLD_MAX = 20
"""Lines a second."""


class Floods:
    """Lines of one kind, for people who read along; all of them are there for who asks for DEBUG.

    The first line beyond the bound says that there are more, and the next line of a later second how many they were.

    Args:
        now_s: Seconds, from any moment.
    """

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._until_s = 0.0
        self._told = 0
        self._untold = 0

    def tell(self, level: int, text: str, *args: object) -> None:
        """A line, as `logging.log` takes it."""
        now_s = self._now_s()
        if now_s >= self._until_s:
            if self._untold:
                self._log.log(level, "and %d more of such lines", self._untold)
            self._until_s, self._told, self._untold = now_s + 1, 0, 0
        if self._told < TOLD_MAX:
            self._told += 1
            self._log.log(level, text, *args)
            return
        if not self._untold:
            self._log.log(level, "more than %d such lines in a second; the others are told at DEBUG", TOLD_MAX)
        self._untold += 1
        self._log.debug(text, *args)
