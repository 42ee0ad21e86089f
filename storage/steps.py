"""Questions and jobs in pieces, so that others come in between: generators that end with what they have found."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Steps: TypeAlias = Generator[None, None, Result]
"""A job that comes to a result."""

A_PIECE = 100
"""Things of which each takes some microseconds, that are gone through in one piece. Few of them make no piece of their own."""


def to_the_end(steps: Steps[Result]) -> Result:
    """Do all pieces at once, where they are known to be few, or nobody waits."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
