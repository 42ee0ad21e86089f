"""What the client's helpers take and give: records, topics, groups; and the partition that a key belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Content: TypeAlias = str | bytes | None
"""A key, a value or the content of a header; a text stands for its UTF-8 bytes, None for null (a tombstone's value)."""
HeadersLike: TypeAlias = Mapping[str, Content] | Iterable[tuple[str, Content]]


class UnreachableError(ConnectionError):
    """No connection could be made: nobody answers, the broker does not let us in, or it is not who it says. One line without secrets;
    nothing was sent."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record in a log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be produced. Without `partition` its key decides, as with every Kafka client; records without a key take
    turns. Without `timestamp_ms` it is made now."""

    value: Content
    key: Content = None
    headers: HeadersLike = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as the cluster describes it; `leader` is -1 while it has none."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster describes it, its partitions by index."""

    name: str
    topic_id: bytes
    partitions: tuple[Partition, ...]
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class Offsets:
    """What a reader finds in a partition: from `start` (inclusive) to `end` (exclusive)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group and what it has committed: the next offset to read, by (topic, partition).

    `state` and `type` are Kafka's words ("Stable", "Empty", …; "classic", "consumer", "share", "streams"), empty where the broker
    is too old to say them.
    """

    group_id: str
    state: str
    type: str
    protocol_type: str
    offsets: dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Config:
    """An option of a topic, a broker or a group; `value` is None for what is not shown."""

    name: str
    value: str | None
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


def expect(what: str, value: object, *kinds: type) -> None:
    """TypeError, in one line, unless `value` is of one of `kinds`; True and False are no numbers."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        raise TypeError(f"{what} must be {names}, not {type(value).__name__} ({value!r:.60})")


def content(what: str, value: Content) -> bytes | None:
    """`value` as bytes; `what` names it when it is none of the three. Raises TypeError."""
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"record {what} must be str, bytes or None, not {type(value).__name__} ({value!r:.60})")


def headers(given: HeadersLike) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as the wire has them, in the order given. Raises TypeError."""
    pairs = given.items() if isinstance(given, Mapping) else given
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise TypeError(f"record headers must be a mapping or pairs of name and value, not {given!r:.60}")
    pairs = tuple(pairs)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"header must be a pair of name and value, not {pair!r:.60}")
        name = pair[0]
        if not isinstance(name, str):
            raise TypeError(f"header name must be str, not {type(name).__name__} ({name!r:.60})")
    return tuple((name, content("header", value)) for name, value in pairs)


_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's 32-bit MurmurHash2 with Kafka's seed, unsigned: clients put keys by it, so we put them where they do."""
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
