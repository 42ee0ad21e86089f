"""How a command ends that cannot do what it should: an exit code, and one line on standard error."""

from __future__ import annotations

DONE = 0
SAID_NO = 1
WRONG_CALL = 2
INTERRUPTED = 130


class CommandError(Exception):
    """The message is the line."""

    exit_code = SAID_NO


class RefusedError(CommandError):
    """The broker, or a file, said no."""


class WrongCallError(CommandError):
    """What was asked for makes no sense, or nobody is there to be asked."""

    exit_code = WRONG_CALL


class ReaderGoneError(Exception):
    """Nobody reads what we print any more, as in `ottla … | head`. Not an OSError: those are of files and sockets."""


def did_you_mean(word: str, names: list[str]) -> str:
    """What goes behind "there is no WORD": the names that look like it, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6) or [name for name in names if name.startswith(word)]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""
