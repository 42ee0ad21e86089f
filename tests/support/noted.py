"""Which of many cases of one test an error is about."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted(case: object) -> Iterator[None]:
    """Add `case` to what an error of the block says; pytest shows it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {case}")
        raise
