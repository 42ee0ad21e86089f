"""Which partition a key belongs to: murmur2, as Kafka's clients have it, so that all of them put a key where we do."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's 32-bit MurmurHash2 with Kafka's seed, unsigned."""
    whole = len(data) & ~3
    result = _SEED ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        result = (result * _M & _MASK) ^ k
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    result = (result ^ result >> 13) * _M & _MASK
    return result ^ result >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return partition_of_hash(murmur2(key), partitions)


def partition_of_hash(hashed: int, partitions: int) -> int:
    """Where a key of this `murmur2` belongs."""
    return (hashed & 0x7FFF_FFFF) % partitions
