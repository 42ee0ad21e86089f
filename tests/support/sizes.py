"""The extent of random and exhaustive tests: a part in `make test`, all in `make nightly`, which sets OTTLA_TESTS=full.

A short run covers every kind. Of moments, of seeds, and of their possible consequences, it has a part, the same in each run.
"""

import os
from collections.abc import Iterable, Sized
from typing import TypeVar

import pytest

Size = TypeVar("Size")
Case = TypeVar("Case")

FULL = os.environ.get("OTTLA_TESTS") == "full"


def size(a_slice: Size, full: Size) -> Size:
    return full if FULL else a_slice


def some(cases: Iterable[Case], count: int) -> list[Case]:
    """Return `count` of the cases in a short run, spread evenly, including the first and the last; all of them in a full run.

    For similar cases, each of which costs much: a case of a kind of its own belongs in every run.
    """
    each = list(cases)
    if FULL or count >= len(each):
        return each
    if count == 1:
        return each[:1]
    return [each[number * (len(each) - 1) // (count - 1)] for number in range(count)]


def cuts_of(data: Sized) -> list[int]:
    """Return lengths to which a message is cut: each in a full run, one in three and the longest in a short run."""
    lengths = range(len(data))
    return sorted({*lengths[:: size(3, 1)], *lengths[-1:]})


full_only = pytest.mark.skipif(not FULL, reason="in full runs")
"""The mark of a test whose check short runs do elsewhere, in a cheaper way; a comment at the test says where."""
