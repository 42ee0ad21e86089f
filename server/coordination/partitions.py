"""Which partition of an internal topic a key belongs to."""

from __future__ import annotations

import sys
from functools import lru_cache

_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """`String.hashCode` of Java: the UTF-16 units as digits to base 31, as a signed 32-bit number."""
    result = 0
    for unit in memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H"):
        result = 31 * result + unit & 0xFFFF_FFFF
    return result - (1 << 32) if result >> 31 else result


# One request asks some times, and the same groups come again and again. Keys have 32 KiB at most.
@lru_cache(maxsize=128)
def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that `key` (a group or transactional id) belongs to.

    Kafka takes the absolute value, with 0 for the one number that has none.
    """
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count
