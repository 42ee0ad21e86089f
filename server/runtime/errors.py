"""Refusal of a control operation: a kind, which becomes the HTTP status, and one sentence."""

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
"""Limits for the search of a similar name: names that are looked at, characters of each, and names that are compared closely.
It takes some milliseconds for any names."""
SIMILAR = 0.6
"""Smallest ratio that counts as similar, from 0 to 1, as `difflib` computes it."""


class Kind(Enum):
    """Reason for a refusal; the value is its HTTP status."""

    NOT_FOUND = 404
    """The named object was not found."""
    CONFLICT = 409
    """The object exists, but its state does not allow the operation."""
    INVALID = 422
    """An argument is wrong, whatever the state."""
    FAILED = 500
    """The disk reported an error."""
    UNAVAILABLE = 503
    """The broker is starting, stopping or between two runs: try again."""
    TIMED_OUT = 504
    """The wait ended without the expected event."""


class ControlError(Exception):
    """An operation that was refused. Nothing was changed, unless the sentence says so.

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
"""Kinds by Kafka's error code. All other codes are INVALID: an argument is wrong."""


def refusal(error: KafkaError) -> ControlError:
    """Return a Kafka error as an error of a control operation."""
    sentence = " ".join((error.message or error.code.name).split())
    return ControlError(KINDS_OF_KAFKA.get(error.code, Kind.INVALID), sentence)


def did_you_mean(name: str, among: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the end of a sentence, or an empty text if no name is similar. Looks at the first
    thousand names."""
    from difflib import SequenceMatcher  # A start must not load it.

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
    """Raise if `found` is not a whole number from `low` to `high`.

    Raises:
        ControlError: INVALID.
    """
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
        raise ControlError(Kind.INVALID, f"{name}: expected a number from {low} to {high}, found {found!r:.100}")
