"""The last lines that Ottla has logged in this process, for display in a browser."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..runtime.log_rate_limit import LogLines

LINES_MAX = 500
LINE_CHARACTERS_MAX = 2_000


class Line(NamedTuple):
    """One line of the log."""

    number: int
    """Number of the line, from 0 on."""
    at_ms: int
    """Time by the machine's clock, which no test moves."""
    level: int
    """Level, as numbered by `logging`."""
    source: str
    """Name of the logger."""
    text: str


class _Tail(logging.Handler):
    """Handler that keeps lines which pass the configured levels; it changes no other logging."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LogLines("%(message)s"))
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self.count = 0
        self.listeners = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)[:LINE_CHARACTERS_MAX]
        except Exception:  # noqa: BLE001 -- malformed arguments: the logging caller must continue, as with all handlers
            self.handleError(record)
            return
        self.lines.append(Line(self.count, int(record.created * 1000), record.levelno, record.name, text))
        self.count += 1


_TAIL = _Tail()


@contextmanager
def keep_lines() -> Iterator[None]:
    """Keep lines, of all brokers of the process, while any caller is in this block."""
    logger = logging.getLogger("ottla")
    if not _TAIL.listeners:
        logger.addHandler(_TAIL)
    _TAIL.listeners += 1
    try:
        yield
    finally:
        _TAIL.listeners -= 1
        if not _TAIL.listeners:
            logger.removeHandler(_TAIL)
            _TAIL.lines.clear()


def last_lines(level: int) -> list[Line]:
    """Return the lines of `level` and above, the newest first."""
    return [line for line in reversed(tuple(_TAIL.lines)) if line.level >= level]
