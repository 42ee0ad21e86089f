"""Numbers that Spark's hash of partitions makes these partitions of, where it cannot be told of them (before PySpark 4.1).

`repartition(n, column)` puts a row into the partition pmod(hash(column), n), and that hash, Murmur3 with a seed of 42, maps numbers of
32 bits to such numbers one to one. So there is a number whose hash is a partition's own, and this finds it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SEED, _ADDED, _LENGTH = 42, 0xE6546B64, 4
_MASK = 0xFFFFFFFF


def place_of(partitions: NDArray[np.int32]) -> NDArray[np.int32]:
    """The numbers whose hashes are these, from 0 on: their partitions are these where there are more than the largest."""
    h = partitions.astype(np.uint64)
    h = _multiplied(h ^ h >> np.uint64(16), _inverse(0xC2B2AE35))
    h = _multiplied(h ^ h >> np.uint64(13) ^ h >> np.uint64(26), _inverse(0x85EBCA6B))
    h ^= h >> np.uint64(16) ^ np.uint64(_LENGTH)
    h = _multiplied(h + np.uint64((1 << 32) - _ADDED) & np.uint64(_MASK), _inverse(5))
    h = _multiplied(_turned_back(h, 13) ^ np.uint64(_SEED), _inverse(0x1B873593))
    return _multiplied(_turned_back(h, 15), _inverse(0xCC9E2D51)).astype(np.uint32).view(np.int32)


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _multiplied(values: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    return values * np.uint64(factor) & np.uint64(_MASK)  # wraps at 64 bits, of which the lower half is right


def _turned_back(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values >> np.uint64(bits) | values << np.uint64(32 - bits)) & np.uint64(_MASK)
