"""The broker's loggers, as clients may see and set them: Python's of the name `ottla.…`, with Log4j's levels.

`root` is the logger `ottla`, above all others of ours; those of the program around are not touched. What is set holds in the
whole process, at once, until the broker ends.
"""

from __future__ import annotations

import logging
import threading

ROOT = "root"
_OURS = "ottla"

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}

_CHANGING = threading.Lock()
_BEFORE: dict[str, tuple[int, int]] = {}
"""What the brokers of this process have changed: the level as it was, and how many of them have."""


class Loggers:
    """The levels of the loggers that clients may change."""

    def __init__(self) -> None:
        self._changed: set[str] = set()

    def names(self) -> list[str]:
        """All that are there by now, in order; more come with what is first used later."""
        found = (
            name
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and name.startswith(f"{_OURS}.")
        )
        return [ROOT, *sorted(found)]

    def has(self, name: str) -> bool:
        """Whether there is a logger of this name."""
        return name == ROOT or name in self.names()

    def level(self, name: str) -> str:
        """The level that holds for a logger, its own or inherited."""
        number = _logger(name).getEffectiveLevel()
        return next((level for level, least in LEVELS.items() if number <= least), "OFF")

    def set(self, name: str, level: str | None) -> None:
        """Give a logger a level of LEVELS, or (None) let it inherit."""
        logger = _logger(name)
        with _CHANGING:
            if name not in self._changed:
                self._changed.add(name)
                before, brokers = _BEFORE.get(name, (logger.level, 0))
                _BEFORE[name] = before, brokers + 1
            logger.setLevel(logging.NOTSET if level is None else LEVELS[level])

    def restore(self) -> None:
        """Let all be as before, but for what other brokers have changed, too: the last of them does."""
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
