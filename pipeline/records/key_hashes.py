"""Hashes of keys, 128 bits of BLAKE2b, for which collisions cannot be constructed: rows by key, in buckets.

A row begins with the fields HASH; the other fields depend on the caller.

`compaction.exchange` has another hash, and its own sorting and dividing: `verify` judges it, and must not share its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...storage.kernel import digests
from .batch_window import Int64s

HASH = [("high", "u8"), ("low", "u8")]

Rows = NDArray[np.void]

ROWS_AT_ONCE = 1 << 19
"""Number of a task's rows that are collected before a merge; they are sent if the merge leaves many."""


def hashed(keys: pa.Array, kind: np.dtype[np.void], salt: bytes = b"") -> Rows:
    """Return a row for each of these keys, with its hash and all other fields 0."""
    if keys.null_count:
        raise ValueError("a key without bytes has no hash")
    rows = np.zeros(len(keys), kind)
    _, edges_buffer, data = keys.cast(pa.binary()).buffers()
    if len(keys):
        edges = np.frombuffer(edges_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
        halves = np.empty((len(keys), 2), np.uint64)
        digests(memoryview(data or b"").cast("B"), edges[:-1].data, np.diff(edges).data, salt, halves.reshape(-1).data)
        rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
    return rows


def by_key(rows: Rows) -> tuple[Int64s, Int64s]:
    """Return the order of the rows by hash (those of a key in any order), and where each key begins in it."""
    high, low = np.ascontiguousarray(rows["high"]), np.ascontiguousarray(rows["low"])
    order = np.argsort(high)
    goes_on = high[order[1:]] == high[order[:-1]]
    if np.any(goes_on & (low[order[1:]] != low[order[:-1]])):  # compare also the other half
        order = np.lexsort((low, high))
        goes_on = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
    return order, np.flatnonzero(np.append(len(rows) > 0, ~goes_on))


def by_bucket(rows: Rows, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, its rows as bytes), for rows in order of the hash."""
    bucket_of = (rows["high"] >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)
    cuts = np.searchsorted(bucket_of, np.arange(buckets + 1, dtype=np.uint64))
    for bucket in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist():
        yield bucket, rows[cuts[bucket] : cuts[bucket + 1]].tobytes()


def merged_as_they_come(
    parts: Iterable[Rows], merge: Callable[[Sequence[Rows]], Rows], rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[Rows]:
    """Yield merged parts: one result if few keys have many rows, else several of about `rows_at_once` rows."""
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
