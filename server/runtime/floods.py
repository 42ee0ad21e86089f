"""Lines of a log that clients can bring about as often as they like: so many a second are told, the others stand at DEBUG only.

Names and words of clients stand in many lines, and must neither end one nor move the cursor of a terminal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic

TOLD_MAX = 20
"""Lines a second."""


class Floods:
    """Lines of one kind, for people who read along; all of them are there for who asks for DEBUG.

    The first line beyond the bound says that there are more; how many they were is said by `tell_of_hidden`, or with the next line
    of a later second if that comes first.

    Args:
        now_s: Seconds, from any moment.
    """

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._until_s = 0.0
        self._told = 0
        self._hidden = 0
        self._level = logging.INFO
        """Of the last that was hidden."""

    def tell(self, level: int, text: str, *args: object) -> None:
        """A line, as `logging.log` takes it."""
        now_s = self._now_s()
        if now_s >= self._until_s:
            self.tell_of_hidden()
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
        """Whether the second has passed that the last line was of."""
        return self._now_s() >= self._until_s

    def tell_of_hidden(self) -> None:
        """How many there were, if any, since that was last said."""
        _HIDING.discard(self)
        if self._hidden:
            self._log.log(self._level, "%d more similar lines", self._hidden)
            self._hidden = 0


_HIDING: set[Floods] = set()
"""Those that have to say how many there were, of all brokers in the process."""


def tell_of_hidden(*, at_end: bool = False) -> None:
    """Have the floods say how many lines they have hidden: those whose second is over, or (`at_end`) all."""
    for each in tuple(_HIDING):
        if at_end or each.is_over():
            each.tell_of_hidden()


def printable(text: str) -> str:
    """The same with line ends, and whatever else is no character to be read, as Python writes them in ASCII."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class LogLines(logging.Formatter):
    """Each message is one line, whatever it is about; tracebacks keep theirs."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)
