"""Subscriptions by regular expression (KIP-848), in RE2's syntax and matched in linear time against all topic names.

`protocol` calls `check_regex` when a member sends a new expression, and `resolve` when a group's expressions must be resolved.
Nothing is kept between calls: an expression is compiled where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import Steps
from ...runtime.expressions import Expression
from ..settings import GROUP_NAMES_MAX

REFRESH_AT_MOST_EVERY_MS = 10_000
"""Minimum time between two resolutions of a group's expressions, whatever happens."""

# An expression may be as long as a request, and the message must not be.
_CHARS_IN_MESSAGE = 8192

# RE2's error text -> the text of RE2/J, which Apache Kafka uses. RE2's text stays where both agree, or where RE2/J fails.
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
    """Raise KafkaError INVALID_REGULAR_EXPRESSION with the reason if this is not a valid expression."""
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
    """Return the topics whose whole name each expression matches, internal topics included, as they were at the first step. An
    invalid expression, from a log that another broker wrote, matches nothing.

    Args:
        sees: Whether the requesting member may know of a topic. It counts for the whole group, as in Apache Kafka. None: every
            topic is visible.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: all expressions together match more than GROUP_NAMES_MAX topics, which is at least
            about as much as one batch can hold.
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
