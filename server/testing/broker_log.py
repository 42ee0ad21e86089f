"""The log lines of brokers in this process, kept for tests that fail, without a trace in the user's own logging."""

from __future__ import annotations

import logging
from collections import deque

LINES_KEPT = 1000
_LEVEL = logging.INFO - 1
"""Ours, and recognizable: a level that somebody else sets while we listen is theirs."""


class BrokerLog(logging.Handler):
    """Listens to the brokers' loggers from INFO on.

    What would have reached the handlers of the root logger without us, and nothing else, still does: pytest's `caplog` and
    a user's log file see no line more and none less.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        self.lines: deque[tuple[int, str]] = deque(maxlen=LINES_KEPT)
        """Numbered from 0 on."""
        self.count = 0
        self._logger = logging.getLogger("ottla")
        self._before = (self._logger.level, self._logger.propagate)
        self._logger.setLevel(_LEVEL)
        self._logger.propagate = False
        self._logger.addHandler(self)

    def detach(self) -> None:
        """Leave logging as it was found, but for what others changed meanwhile."""
        self._logger.removeHandler(self)
        if self._logger.level == _LEVEL:
            self._logger.setLevel(self._before[0])
        self._logger.propagate = self._before[1]

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self.count, self.format(record)))
        self.count += 1
        level, propagates = self._before
        if self._logger.level != _LEVEL:
            level = self._logger.level
        root = logging.getLogger()
        if propagates and record.levelno >= (level or root.getEffectiveLevel()):
            root.callHandlers(record)

    def since(self, number: int, at_most: int) -> list[str]:
        """The lines from `number` on, the last `at_most` of them."""
        return [text for index, text in self.lines if index >= number][-at_most:]
