"""Rate limit for log lines that clients can cause as often as they like: beyond TOLD_MAX a second they are logged only at
DEBUG.

Many lines contain text from clients, which must neither end a line nor contain terminal control sequences.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

TOLD_MAX = 20
"""Largest number of lines per second."""


class LogRateLimiter:
    """Rate limiter for lines of one kind; all of them are logged at DEBUG. The first line beyond the limit says that there are
    more. Their number is logged by `report_hidden`, or before the next line in a later second.

    Args:
        now_s: Returns seconds since an arbitrary moment.
    """

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._until_s = 0.0
        self._told = 0
        self._hidden = 0
        self._level = logging.INFO
        """Level of the last hidden line."""

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line, with the arguments of `logging.log`, unless the limit is reached."""
        now_s = self._now_s()
        if now_s >= self._until_s:
            self.report_hidden()
            self._until_s, self._told = now_s + 1, 0
        if self._told < TOLD_MAX:
            self._told += 1
            self._log.log(level, text, *args)
            return
        if not self._hidden:
            self._log.log(
                level, "more than %d similar lines in one second; further lines are logged at DEBUG", TOLD_MAX
            )
            _HIDING.add(self)
        self._hidden += 1
        self._level = level
        self._log.debug(text, *args)

    def is_over(self) -> bool:
        """Return whether the second of the last line has passed."""
        return self._now_s() >= self._until_s

    def report_hidden(self) -> None:
        """Log the number of lines that were hidden since the last report, if any."""
        _HIDING.discard(self)
        if self._hidden:
            self._log.log(self._level, "%d more similar lines", self._hidden)
            self._hidden = 0


_HIDING: set[LogRateLimiter] = set()
"""Limiters with hidden lines to report, of all brokers in the process."""


def report_hidden(*, at_end: bool = False) -> None:
    """Log the numbers of hidden lines: of limiters whose second has passed, or (`at_end`) of all."""
    for each in tuple(_HIDING):
        if at_end or each.is_over():
            each.report_hidden()


def printable(text: str) -> str:
    """Return the text with line ends and other unprintable characters escaped, as Python writes them in ASCII."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class LogLines(logging.Formatter):
    """Formatter that makes each message one line; tracebacks keep their lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)
