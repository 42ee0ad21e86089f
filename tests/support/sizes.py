"""How much the tests look at that explore: a slice in `make test`, all in `make nightly`, which sets OTTLA_TESTS=full.

A slice has every kind; of moments, of seeds, and of what may follow from each, it has a part, the same in each run.
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
    """`count` of the cases in a slice, spread evenly, the first and the last among them; all of them in full.

    For cases that are like each other, each of which costs much: what is of a kind of its own belongs in every run.
    """
    each = list(cases)
    if FULL or count >= len(each):
        return each
    if count == 1:
        return each[:1]
    return [each[number * (len(each) - 1) // (count - 1)] for number in range(count)]


def cuts_of(data: Sized) -> list[int]:
    """Lengths to which a message is cut short: each in full, one in three and the longest in a slice."""
    lengths = range(len(data))
    return sorted({*lengths[:: size(3, 1)], *lengths[-1:]})


full_only = pytest.mark.skipif(not FULL, reason="in full runs")
"""For a test whose check a slice has elsewhere, by a cheaper way: where, says the comment beside it."""
