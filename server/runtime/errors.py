"""How an operation of the control room is refused: a kind, which HTTP turns into its status, and one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from heapq import nlargest
from itertools import islice
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError

LOOKED_AT_MAX = 1_000
LOOKED_AT_CHARACTERS_MAX = 40
COMPARED_MAX = 5
"""Names among which a similar one is looked for, how much of each, and how many of them closely: it takes some milliseconds,
whatever the names are."""
SIMILAR = 0.6
"""Of a ratio from 0 to 1, as `difflib` has it."""


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

    def __reduce__(self) -> tuple[Any, ...]:
        return ControlError, (self.kind, *self.args)


KINDS_OF_KAFKA: dict[ErrorCode, Kind] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Kind.UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Kind.UNAVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: Kind.NOT_FOUND,
    ErrorCode.KAFKA_STORAGE_ERROR: Kind.FAILED,
    ErrorCode.NON_EMPTY_GROUP: Kind.CONFLICT,
    ErrorCode.NOT_COORDINATOR: Kind.UNAVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Kind.UNAVAILABLE,
    ErrorCode.TOPIC_ALREADY_EXISTS: Kind.CONFLICT,
    ErrorCode.UNKNOWN_MEMBER_ID: Kind.CONFLICT,
    ErrorCode.UNKNOWN_SERVER_ERROR: Kind.FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Kind.NOT_FOUND,
}
"""All others say that an argument is wrong."""


def refusal(error: KafkaError) -> ControlError:
    """Return a Kafka error as an error of a control operation."""
    sentence = " ".join((error.message or error.code.name).split())
    return ControlError(KINDS_OF_KAFKA.get(error.code, Kind.INVALID), sentence)


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """`; did you mean 'x'?` to end a sentence with, or nothing where no name is similar. Looks at the first thousand."""
    from difflib import SequenceMatcher  # No start shall wait for it.

    wanted = SequenceMatcher(b=name[:LOOKED_AT_CHARACTERS_MAX], autojunk=False)
    looked_at = []
    for at, each in enumerate(islice(among, LOOKED_AT_MAX)):
        wanted.set_seq1(each[:LOOKED_AT_CHARACTERS_MAX])
        if wanted.real_quick_ratio() >= SIMILAR and (ratio := wanted.quick_ratio()) >= SIMILAR:
            looked_at.append((ratio, -at, each))
    compared = []
    for _, at, each in nlargest(COMPARED_MAX, looked_at):
        wanted.set_seq1(each[:LOOKED_AT_CHARACTERS_MAX])
        compared.append((wanted.ratio(), at, each))
    ratio, _, similar = max(compared, default=(0.0, 0, ""))
    return f"; did you mean {similar!r}?" if ratio >= SIMILAR else ""


def check_number(name: str, found: object, low: int, high: int) -> None:
    """Refuse what is no whole number from `low` to `high`.

    Raises:
        ControlError: INVALID.
    """
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
        raise ControlError(Kind.INVALID, f"{name}: expected a number from {low} to {high}, found {found!r:.100}")
