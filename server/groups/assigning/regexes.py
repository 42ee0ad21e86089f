"""Subscriptions by regular expression (KIP-848): RE2's syntax, matched in linear time against all topic names.

Called by `protocol` when a member brings a new expression (`check_regex`) and when a group's expressions are to be
resolved (`resolve`). Nothing is kept between calls: an expression is compiled where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import Steps
from ...runtime.expressions import Expression
from ..settings import GROUP_NAMES_MAX

REFRESH_AT_MOST_EVERY_MS = 10_000
"""How long a group's expressions are left alone at least after they were resolved, whatever happens."""

# An expression may be as long as a request.
_CHARS_IN_MESSAGE = 8192

# What RE2 calls it -> what RE2/J, which Apache Kafka uses, calls it. Where they agree, or RE2/J fails, RE2's text stays.
_RE2J_NAMES = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}


def check_regex(regex: str) -> None:
    """Raise KafkaError INVALID_REGULAR_EXPRESSION, with what is wrong, if it is not one."""
    try:
        Expression(regex)
    except KafkaError as error:
        reason = _RE2J_NAMES.get(error.message, error.message)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:_CHARS_IN_MESSAGE]}` is not a valid regular expression: {reason}.",
        ) from error


def resolve(
    regexes: Collection[str], topics: Iterable[str], sees: Callable[[str], bool] | None = None
) -> Steps[dict[str, frozenset[str]]]:
    """The topics whose whole name each expression matches, internal ones too, as they were at the beginning. An expression
    that is none, from a log that others wrote, matches nothing.

    Args:
        sees: Whether a topic may be known to the member that asks; it asks for the whole group, as in Apache Kafka. None:
            every topic may.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: all of them together match more than GROUP_NAMES_MAX topics, which is about what one
            batch can hold, or more.
    """
    names = tuple(topics)
    resolved: dict[str, frozenset[str]] = {}
    left = GROUP_NAMES_MAX
    for regex in regexes:
        found = []
        try:
            matches = Expression(regex).matches
            for name in names:
                if matches(name) and (sees is None or sees(name)):
                    found.append(name)
                yield
        except KafkaError:
            found.clear()
        resolved[regex] = frozenset(found)
        left -= len(found)
        if left < 0:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{len(resolved)} of {len(regexes)} expressions match too many topics ({GROUP_NAMES_MAX - left}"
                f" together, limit {GROUP_NAMES_MAX})",
            )
    return resolved
