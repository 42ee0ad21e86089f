"""How an operation of the control room is refused: a kind, which HTTP turns into its status, and one sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import Enum
from itertools import islice

LOOKED_AT_MAX = 1_000
"""Names among which a similar one is looked for; it takes some milliseconds."""


class Kind(Enum):
    """Why it is refused; the value is the status that HTTP has for it."""

    NOT_FOUND = 404
    """What was asked for is not there."""
    CONFLICT = 409
    """It is there, and in no state for that."""
    INVALID = 422
    """No state would do: an argument is wrong."""
    FAILED = 500
    """The disk refused."""
    UNAVAILABLE = 503
    """The broker is starting, stopping or between two lives: ask again."""
    TIMED_OUT = 504
    """What was waited for did not come in time."""


class ControlError(Exception):
    """An operation that was refused. Unless it says otherwise, nothing was changed.

    Args:
        sentence: One line: the value, its bound, the nearest name.
    """

    def __init__(self, kind: Kind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """`; did you mean 'x'?` to end a sentence with, or nothing where no name is similar. Looks at the first thousand."""
    similar = difflib.get_close_matches(name[:300], list(islice(among, LOOKED_AT_MAX)), n=1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
