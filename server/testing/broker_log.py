"""The log lines of brokers in this process, kept for tests that fail, without a trace in the user's own logging."""

from __future__ import annotations

import logging
from collections import deque

from ..runtime.log_lines import LogLines

LINES_KEPT = 1000
_LEVEL = logging.INFO - 1
"""Ours, and recognizable: a level that somebody else sets while we listen is theirs."""


class BrokerLog(logging.Handler):
    """Listens to the brokers' loggers from INFO on.

    What would have reached other handlers without us, and nothing else, still does: pytest's `caplog` and a user's log file
    see no line more and none less.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LogLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        self.lines: deque[tuple[int, str]] = deque(maxlen=LINES_KEPT)
        """Numbered from 0 on."""
        self.count = 0
        self._logger = logging.getLogger("ottla")
        self._level_before = self._logger.level
        self._logger.setLevel(_LEVEL)
        self._logger.addHandler(self)

    def detach(self) -> None:
        """Leave logging as it was found, but for what others changed meanwhile."""
        self._logger.removeHandler(self)
        if self._logger.level == _LEVEL:
            self._logger.setLevel(self._level_before)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.append((self.count, self.format(record)))
            self.count += 1
        except Exception:  # noqa: BLE001 -- words that do not fit: whoever has logged them goes on, as with all handlers
            self.handleError(record)
        if record.levelno < self._level_without_us(record.name):
            # Handlers behind us, the root logger's among them, take no record below their level: none has one below this.
            record.levelno = -1

    def _level_without_us(self, name: str) -> int:
        """What a logger would let pass: a level of its own, or of one between it and ours, holds as it is."""
        own = logging.getLogger(name).getEffectiveLevel()
        if own != _LEVEL:
            return own
        return self._level_before or logging.getLogger().getEffectiveLevel()

    def since(self, number: int, at_most: int) -> list[str]:
        """The lines from `number` on, the last `at_most` of them."""
        return [text for index, text in self.lines if index >= number][-at_most:]
