"""One number for all that an assignment depends on in the topics of a group; a changed number means a new assignment.

Called by `consumer.protocol` whenever subscriptions or topics may have changed; written down with the group's epoch (KIP-1101).
Apache Kafka takes XXH3 here. No broker compares its numbers with another's but one that takes over the log, and that
one would assign anew once; so it is a hash that Python has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from ...coordination.jobs import AT_ONCE, Job, Steps, in_order, to_the_end
from .topics import TopicView

KEPT = 1 << 14
"""Topics whose part is kept: a group that matches all topics asks for all of them with each member that joins."""
HASHES_KEPT = 16
_TRIES = 3


class Hashed(NamedTuple):
    """
    Attributes:
        number: A signed 64-bit number made of id, name, partition count and racks of those topics that exist; 0 if none does.
        existing: Their names, in order.
        ids: Theirs.
    """

    number: int
    existing: tuple[str, ...]
    ids: frozenset[bytes]


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """The `number` of these topics."""
    return to_the_end(hashing(set(names), topics)).number


def hashing(names: Collection[str], topics: TopicView) -> Steps[Hashed]:
    """What these topics are, each name once, and each as it is when its piece comes.

    A topic never is again what it was before, as ids are given once and partitions only become more. So whoever finds the number
    that it knew has seen each topic as it was then.
    """
    ordered = yield from in_order(names)
    digest, existing, ids = blake2b(digest_size=8), list[str](), list[bytes]()
    for name in ordered:
        topic_id = topics.id_of(name)
        if topic_id is not None:
            digest.update(_part(topic_id, name, topics))
            existing.append(name)
            ids.append(topic_id)
        yield
    number = int.from_bytes(digest.digest(), "big", signed=True) if existing else 0
    return Hashed(number, tuple(existing), frozenset(ids))


def describe(names: Iterable[str], topics: TopicView) -> Job:
    """Have what these topics add ready, as it takes some microseconds each the first time."""
    for name in names:
        if (topic_id := topics.id_of(name)) is not None:
            _part(topic_id, name, topics)
        yield


class MetadataHashes:
    """`metadata_hash` for all groups, which ask for the same topics with each member that comes: 2 us a topic."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._known: dict[frozenset[str], Hashed] = {}
        self._changes = 0

    def of(self, names: frozenset[str]) -> int:
        """As it was when somebody asked first since `topics_changed`."""
        return self._hashed(names).number

    def existing(self, names: frozenset[str]) -> tuple[str, ...]:
        """Those of which there was a topic then, in order."""
        return self._hashed(names).existing

    def ids(self, names: frozenset[str]) -> frozenset[bytes]:
        """Those of the topics that there are, now."""
        if names in self._known:
            return self._known[names].ids
        return frozenset(topic_id for name in names if (topic_id := self._topics.id_of(name)) is not None)

    def preparing(self, names: frozenset[str]) -> Job:
        """Have all of that ready of many names, one a piece; without success where topics change all the time."""
        if len(names) <= AT_ONCE:
            return
        for _ in range(_TRIES):
            if names in self._known:
                return
            before = self._changes
            found = yield from hashing(names, self._topics)
            if self._changes == before:
                self._keep(names, found)

    def _hashed(self, names: frozenset[str]) -> Hashed:
        known = self._known.get(names)
        return self._keep(names, to_the_end(hashing(names, self._topics))) if known is None else known

    def _keep(self, names: frozenset[str], found: Hashed) -> Hashed:
        if len(self._known) >= HASHES_KEPT:
            self._known.clear()
        self._known[names] = found
        return found

    def topics_changed(self) -> None:
        """Topics were created, deleted or got more partitions. Of partitions that other racks hold nobody tells: that is
        seen with the next change."""
        self._known.clear()
        self._changes += 1


def _part(topic_id: bytes, name: str, topics: TopicView) -> bytes:
    racks = topics.racks(topic_id)
    shown = tuple(map(tuple, racks)) if any(racks) else ()
    return _described(topic_id, name, topics.partition_count(topic_id), shown)


@lru_cache(KEPT)
def _described(topic_id: bytes, name: str, partition_count: int, racks: tuple[tuple[str, ...], ...]) -> bytes:
    """What one topic adds; `racks` is empty where no partition has any."""
    shown = [sorted(one) for one in racks or ((),) * partition_count]
    return repr((topic_id, name, partition_count, shown)).encode("utf-8", "surrogatepass")
