"""How a command ends that cannot do what it should: an exit code, and one line on standard error."""

from __future__ import annotations

from collections.abc import Iterable

DONE = 0
SAID_NO = 1
WRONG_CALL = 2
INTERRUPTED = 130


LIKE = 0.6
LESS_LIKE = 0.1
"""So much less than the first, and a name is not offered beside it."""


class CommandError(Exception):
    """The broker, or a file, refused. The message is the line."""

    exit_code = SAID_NO


class WrongCallError(CommandError):
    """What was asked for makes no sense, or nobody is there to be asked."""

    exit_code = WRONG_CALL


class ReaderGoneError(Exception):
    """Nobody reads what we print any more, as in `ottla … | head`. Not an OSError: those are of files and sockets."""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """What goes behind "there is no WORD": the names that look like it, or begin with it, or nothing."""
    from difflib import SequenceMatcher

    def likeness(name: str) -> float:
        return SequenceMatcher(None, name, word).ratio()

    known = list(names)
    like = sorted((name for name in known if likeness(name) >= LIKE), key=likeness, reverse=True)
    close = [name for name in like if likeness(name) >= likeness(like[0]) - LESS_LIKE]
    close = close or [name for name in known if len(word) > 2 and name.startswith(word)]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""
