"""Acknowledgements by members, valid and invalid."""

from __future__ import annotations

import random

from .steps import ACCEPT, REJECT, RELEASE, RENEW, Says

GAP = 0
EACH_MAX = 60
"""The most records that get a type each."""
WRONG = 0.12

Ranges = list[tuple[int, int]]
"""Offsets, both ends inclusive."""


def without(ranges: Ranges, first: int, last: int) -> Ranges:
    left = []
    for low, high in ranges:
        if high < first or last < low:
            left.append((low, high))
            continue
        if low < first:
            left.append((low, first - 1))
        if last < high:
            left.append((last + 1, high))
    return left


def sayings(rng: random.Random, mine: Ranges, end: int, *, renews: bool) -> Says:
    """Return acknowledgements of records that a member has, or of any records if it has none."""
    kinds = [ACCEPT, RELEASE, REJECT, GAP, *([RENEW] if renews else [])]
    weights = [45, 25, 10, 8, *([80] if renews else [])]
    chosen = sorted(rng.sample(mine, min(len(mine), rng.choice((1, 1, 2, 3))))) or [_anywhere(rng, end)]
    batches = []
    for low, high in chosen:
        first, last = low, high
        if high > low and rng.random() < 0.5:
            first = rng.randint(low, high)
            last = rng.randint(first, high)
        size = last - first + 1
        if size <= EACH_MAX and rng.random() < 0.35:
            types = tuple(rng.choices(kinds, weights, k=size))
        else:
            types = (rng.choices(kinds, weights)[0],)
        batches.append((first, last, types))
    return tuple(_wrong(rng, batches, end) if rng.random() < WRONG else batches)


def _anywhere(rng: random.Random, end: int) -> tuple[int, int]:
    first = rng.randint(0, max(end, 1))
    return first, first + rng.randrange(5)


def _wrong(
    rng: random.Random, batches: list[tuple[int, int, tuple[int, ...]]], end: int
) -> list[tuple[int, int, tuple[int, ...]]]:
    first, last, types = batches[-1]
    wrongs: list[list[tuple[int, int, tuple[int, ...]]]] = [
        [*batches, (first, last, types)],
        [*batches, (last, last + 2, (ACCEPT,))],
        [(last, first, (ACCEPT,))],
        [(first, last, (5,))],
        [(first, last, (-1,))],
        [(first, last, (RENEW,))],
        [(first, last, (ACCEPT,) * (last - first + 2))],
        [(first, last, ())],
        [(-1, last, (ACCEPT,))],
        [(end, end, (ACCEPT,))],
        [(end + 3, end + 9, (RELEASE,))],
        [(first, end + 50, (ACCEPT,))],
        [(*_anywhere(rng, end), (rng.choice((ACCEPT, RELEASE, REJECT)),))],
        [],
    ]
    return rng.choice(wrongs)
