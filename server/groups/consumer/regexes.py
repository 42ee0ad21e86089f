"""Subscriptions by regular expression (KIP-848): RE2's syntax, matched in linear time against all topic names.

Called by `protocol` when a member brings a new expression (`check_regex`) and when a group's expressions are to be
resolved (`resolve`). Nothing is kept between calls: an expression is compiled where it is used, in some microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....protocol.errors import ErrorCode, KafkaError

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
    _compile(regex)


def resolve(regexes: Iterable[str], topics: Iterable[str]) -> dict[str, frozenset[str]]:
    """The topics whose whole name each expression matches, internal ones too. Without an authorizer everybody may
    describe every topic."""
    names = tuple(topics)
    return {regex: frozenset(filter(_matcher(regex), names)) for regex in regexes}


def _matcher(regex: str) -> Callable[[str], object]:
    """The expression's full match; one that is none, from a log that others wrote, matches nothing."""
    try:
        matcher: Callable[[str], object] = _compile(regex).fullmatch
    except KafkaError:
        return lambda _: False
    return matcher


def _compile(regex: str) -> Any:
    # Imported here, as few brokers ever see an expression.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        return re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        kind = error.args[0].decode(errors="replace").partition(": ")[0] if isinstance(error, re2.error) else "not text"
        reason = _RE2J_NAMES.get(kind, kind)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:_CHARS_IN_MESSAGE]}` is not a valid regular expression: {reason}.",
        ) from error
