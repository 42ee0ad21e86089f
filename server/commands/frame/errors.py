"""Errors that end a command with an exit code and one line on standard error."""

from __future__ import annotations

from collections.abc import Iterable

DONE = 0
SAID_NO = 1
WRONG_CALL = 2
INTERRUPTED = 130


LIKE = 0.6
LESS_LIKE = 0.1
"""Names that are less similar than the best match by more than this are not suggested."""


class CommandError(Exception):
    """Error that ends a command. The message is the line.

    Args:
        exit_code: SAID_NO: rejected by the broker, or an invalid file. WRONG_CALL: see `wrong_call`.
    """

    def __init__(self, line: str, exit_code: int = SAID_NO) -> None:
        super().__init__(line)
        self.exit_code = exit_code


def wrong_call(line: str) -> CommandError:
    """Return the error for a usage error, or if no broker is reachable."""
    return CommandError(line, WRONG_CALL)


class ReaderGoneError(Exception):
    """The reader of our output has closed the pipe, as in `ottla … | head`. Not an OSError: those are of files and sockets."""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return a suggestion to append to an error about `word`.

    It has the names that are similar to `word` or begin with it, and is empty without such names.
    """
    from difflib import SequenceMatcher

    def likeness(name: str) -> float:
        return SequenceMatcher(None, name, word).ratio()

    known = list(names)
    like = sorted((name for name in known if likeness(name) >= LIKE), key=likeness, reverse=True)
    close = [name for name in like if likeness(name) >= likeness(like[0]) - LESS_LIKE]
    close = close or [name for name in known if len(word) > 2 and name.startswith(word)]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""
