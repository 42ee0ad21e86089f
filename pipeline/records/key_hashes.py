"""Keys as 128 bits of BLAKE2b, in which nobody makes two keys collide: rows by key, and shared out in buckets of hashes.

A row begins with the fields HASH; what follows them is its owner's.

`compaction.exchange` has another hash, and sorts and cuts by itself: `verify` judges it, and must not make its mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .batch_window import Int64s

HASH = [("high", "u8"), ("low", "u8")]

Rows = NDArray[np.void]

ROWS_AT_ONCE = 1 << 19
"""Rows of a task that are put by until they are merged, and given out if that leaves many."""


def hashed(keys: pa.Array, kind: np.dtype[np.void], salt: bytes = b"") -> Rows:
    """A row for each of these keys, with its hash and all else 0."""
    rows = np.zeros(len(keys), kind)
    digests = b"".join([blake2b(key, digest_size=16, salt=salt).digest() for key in keys.to_pylist()])
    halves = np.frombuffer(digests, np.uint64).reshape(-1, 2)
    rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
    return rows


def by_key(rows: Rows) -> tuple[Int64s, Int64s]:
    """The places of the rows in order of the hash, those of a key in any order; and where in these each key begins."""
    high, low = np.ascontiguousarray(rows["high"]), np.ascontiguousarray(rows["low"])
    order = np.argsort(high)
    goes_on = high[order[1:]] == high[order[:-1]]
    if np.any(goes_on & (low[order[1:]] != low[order[:-1]])):  # the other half tells them apart
        order = np.lexsort((low, high))
        goes_on = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
    return order, np.flatnonzero(np.append(len(rows) > 0, ~goes_on))


def by_bucket(rows: Rows, buckets: int) -> Iterator[tuple[int, bytes]]:
    """(bucket, its rows as bytes), of rows that are in order of the hash."""
    bucket_of = (rows["high"] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    cuts = np.searchsorted(bucket_of, np.arange(buckets + 1, dtype=np.uint64))
    for bucket in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
        yield bucket, rows[cuts[bucket] : cuts[bucket + 1]].tobytes()


def merged_as_they_come(
    parts: Iterable[Rows], merge: Callable[[Sequence[Rows]], Rows], rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[Rows]:
    """What `merge` makes of the parts: all together where few keys have many rows, else of about `rows_at_once` at a time."""
    found: list[Rows] = []
    count = 0
    for rows in parts:
        found.append(rows)
        count += len(rows)
        if count >= rows_at_once:
            found = [merge(found)]
            count = len(found[0])
            if count > rows_at_once // 2:
                yield found[0]
                found, count = [], 0
    yield merge(found)
