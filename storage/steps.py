"""Long work in pieces, so that other work can run in between: generators that return their result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Steps: TypeAlias = Generator[None, None, Result]
"""Long work that returns a result."""

A_PIECE = 100
"""Number of items, each of which takes some microseconds, in one piece. A rest of a few needs no piece of its own."""


def to_the_end(steps: Steps[Result]) -> Result:
    """Run all pieces in one go, if they are few or no other work waits, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
