"""The broker's loggers, as clients see and set them: Python's loggers named `ottla.…`, with Log4j's levels.

`root` is the logger `ottla`, the parent of all others of ours; other loggers of the program are not touched. A changed level
holds in the whole process, at once, until the broker ends.
"""

from __future__ import annotations

import logging
import threading

ROOT = "root"
_OURS = "ottla"

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}

_CHANGING = threading.Lock()
_BEFORE: dict[str, tuple[int, int]] = {}
"""Loggers that brokers of this process have changed: the level before, and the number of brokers that changed it."""


class Loggers:
    """Loggers as one broker changes them."""

    def __init__(self) -> None:
        self._changed: set[str] = set()

    def names(self) -> list[str]:
        """List all present loggers in order; more are created with modules that are loaded later."""
        found = (
            name
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and name.startswith(f"{_OURS}.")
        )
        return [ROOT, *sorted(found)]

    def has(self, name: str) -> bool:
        """Return whether a logger of this name exists."""
        return name == ROOT or name in self.names()

    def level(self, name: str) -> str:
        """Return the effective level of a logger, its own or inherited."""
        number = _logger(name).getEffectiveLevel()
        return next((level for level, least in LEVELS.items() if number <= least), "OFF")

    def set(self, name: str, level: str | None) -> None:
        """Set the level of a logger to one of LEVELS, or (None) let it inherit."""
        logger = _logger(name)
        with _CHANGING:
            if name not in self._changed:
                self._changed.add(name)
                before, brokers = _BEFORE.get(name, (logger.level, 0))
                _BEFORE[name] = before, brokers + 1
            logger.setLevel(logging.NOTSET if level is None else LEVELS[level])

    def restore(self) -> None:
        """Restore all levels, except of loggers that other brokers have changed as well: the last of them restores those."""
        with _CHANGING:
            while self._changed:
                name = self._changed.pop()
                level, brokers = _BEFORE.pop(name)
                if brokers > 1:
                    _BEFORE[name] = level, brokers - 1
                else:
                    _logger(name).setLevel(level)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(_OURS if name == ROOT else name)
