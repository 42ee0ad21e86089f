"""What is moved of a key: a row of numbers from each task that has met it, by its hash. No key and no value moves.

    one topic by itself     36 bytes   the two oldest offsets at which the key still is
    two topics, compared    62 bytes   the newest record's place, time and hash; how many there are, and in which order

Rows of one key are merged in the task that makes them, and once more where all of them come together.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...storage.disk.paths import OFFSET_MAX
from ..records.batch_window import Int64s
from ..records.key_hashes import HASH, by_key, hashed

NONE = OFFSET_MAX

OLDEST = np.dtype([*HASH, ("partition", "i4"), ("first", "i8"), ("second", "i8")])
"""`second` is NONE where the key is there once."""

NEWEST = np.dtype(
    [
        *HASH,
        ("side", "i4"),
        ("partition", "i4"),
        ("time", "i8"),  # Unix milliseconds
        ("last", "i8"),  # the newest offset
        ("value", "u8"),  # the hash of the newest record
        ("deleted", "u1"),  # which is a tombstone
        ("pad", "u1"),
        ("count", "i4"),  # records
        ("versions", "u8"),  # a hash of all of them, in their order
    ]
)

Rows = NDArray[np.void]

_STEP = np.uint64(0x9E3779B97F4A7C13)  # 3 above a multiple of 8: one step loses a bit at most of what comes before it


def oldest_rows(keys: pa.Array, partition: int, offsets: Int64s) -> Rows:
    """Of records of one partition, in order of the offset: a row a key."""
    encoded = keys.dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False)
    rows = hashed(encoded.dictionary, OLDEST, salt=partition.to_bytes(4))
    rows["partition"] = partition
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    sizes = np.diff(starts, append=len(code))
    own = code[order][starts]
    rows["first"][own] = offsets[order][starts]
    rows["second"] = NONE
    again = sizes > 1
    rows["second"][own[again]] = offsets[order][starts[again] + 1]
    return rows


def merged_oldest(parts: Iterable[Rows]) -> Rows:
    """One row for each key of the parts, in order of the hash."""
    rows = np.concatenate([np.empty(0, OLDEST), *parts])
    if not len(rows):
        return rows
    order, starts = by_key(rows)
    merged = rows[order[starts]]
    sizes = np.diff(starts, append=len(rows))
    first = rows["first"][order]
    merged["first"] = np.minimum.reduceat(first, starts)
    # The second oldest is the least of all seconds, and of all firsts but the least.
    others = np.where(first == np.repeat(merged["first"], sizes), NONE, first)
    merged["second"] = np.minimum.reduceat(np.minimum(others, rows["second"][order]), starts)
    return merged


def newest_rows(
    keys: pa.Array, side: int, partition: int, offsets: Int64s, times_ms: Int64s, values: Int64s, deleted: NDArray[np.bool_],
    *, salt: bytes,
) -> Rows:  # fmt: skip
    """Of records of one partition, in order of the offset: a row a key.

    Args:
        values: A hash of each record, as it is compared.
        salt: Of the key's hash: keys with another one are others.
    """
    encoded = keys.dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False)
    rows = hashed(encoded.dictionary, NEWEST, salt=salt)
    rows["side"], rows["partition"] = side, partition
    for name, of in (("time", times_ms), ("last", offsets), ("value", values.view(np.uint64)), ("deleted", deleted)):
        rows[name][code] = of  # of several assignments to one place the last one stays
    order = np.argsort(code, kind="stable")
    starts = np.flatnonzero(np.diff(code[order], prepend=-1))
    sizes = np.diff(starts, append=len(code))
    own = code[order][starts]
    rows["count"][own] = sizes
    each = _mixed(values.view(np.uint64)[order] + deleted[order].astype(np.uint64))
    rows["versions"][own] = _in_sequence(each, np.ones(len(code), np.int64), starts, sizes)
    return rows


def merged_newest(parts: Iterable[Rows], *, by_time: bool) -> Rows:
    """One row for each key and side of the parts, in order of the hash.

    Args:
        by_time: Whether records of several partitions are of one key: the latest is the newest then, and nothing is said of
            their order.
    """
    rows = np.concatenate([np.empty(0, NEWEST), *parts])
    if not len(rows):
        return rows
    time = rows["time"] if by_time else np.zeros(len(rows), np.int64)
    order = np.lexsort((rows["last"], time, rows["side"], rows["low"], rows["high"]))
    rows = rows[order]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = np.any([rows[name][1:] != rows[name][:-1] for name in ("high", "low", "side")], axis=0)
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=len(rows))
    merged: Rows = rows[starts + sizes - 1]
    counts = rows["count"].astype(np.int64)
    merged["count"] = np.minimum(np.add.reduceat(counts, starts), np.iinfo(np.int32).max)
    merged["versions"] = _in_sequence(rows["versions"], counts, starts, sizes)
    return merged


def _in_sequence(hashes: NDArray[np.uint64], lengths: Int64s, starts: Int64s, sizes: Int64s) -> NDArray[np.uint64]:
    """The hash of each group's hashes in their order, each of which stands for a sequence of some length already."""
    ends = np.cumsum(lengths)
    behind = np.repeat(ends[starts + sizes - 1], sizes) - ends
    found: NDArray[np.uint64] = np.add.reduceat(hashes * _powers(behind), starts)
    return found


def _mixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of which a change of any bit changes all: the end of SplitMix64."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


def _powers(exponents: Int64s) -> NDArray[np.uint64]:
    """_STEP to the power of each, modulo 2**64."""
    found = np.ones(len(exponents), np.uint64)
    square, left = _STEP, exponents.astype(np.uint64)
    with np.errstate(over="ignore"):
        while np.any(left):
            found = np.where(left & np.uint64(1), found * square, found)
            square, left = square * square, left >> np.uint64(1)
    return found
