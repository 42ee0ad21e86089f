"""One number for all that an assignment depends on in the topics of a group; a changed number means a new assignment.

Called by `consumer.protocol` whenever subscriptions or topics may have changed; written down with the group's epoch (KIP-1101).
Apache Kafka takes XXH3 here. No broker compares its numbers with another's but one that takes over the log, and that
one would assign anew once; so it is a hash that Python has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from ...coordination.jobs import Job
from .topics import TopicView

KEPT = 1 << 14
"""Topics whose part is kept: a group that matches all topics asks for all of them with each member that joins."""
HASHES_KEPT = 16


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """A signed 64-bit number made of id, name, partition count and racks of those topics that exist; 0 if none does."""
    parts = [part for name in sorted(set(names)) if (part := _part(name, topics)) is not None]
    if not parts:
        return 0
    digest = blake2b(b"".join(parts), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


def describe(names: Iterable[str], topics: TopicView) -> Job:
    """Have what these topics add ready, as it takes some microseconds each the first time."""
    for name in names:
        _part(name, topics)
        yield


class MetadataHashes:
    """`metadata_hash` for all groups, which ask for the same topics with each member that comes: 2 us a topic."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._known: dict[frozenset[str], int] = {}

    def of(self, names: frozenset[str]) -> int:
        """As it was when somebody asked first since `topics_changed`."""
        known = self._known.get(names)
        if known is None:
            if len(self._known) >= HASHES_KEPT:
                self._known.clear()
            known = self._known[names] = metadata_hash(names, self._topics)
        return known

    def topics_changed(self) -> None:
        """Topics were created, deleted or got more partitions. Of partitions that other racks hold nobody tells: that is
        seen with the next change."""
        self._known.clear()


def _part(name: str, topics: TopicView) -> bytes | None:
    topic_id = topics.id_of(name)
    if topic_id is None:
        return None
    racks = topics.racks(topic_id)
    shown = tuple(map(tuple, racks)) if any(racks) else ()
    return _described(topic_id, name, topics.partition_count(topic_id), shown)


@lru_cache(KEPT)
def _described(topic_id: bytes, name: str, partition_count: int, racks: tuple[tuple[str, ...], ...]) -> bytes:
    """What one topic adds; `racks` is empty where no partition has any."""
    shown = [sorted(one) for one in racks or ((),) * partition_count]
    return repr((topic_id, name, partition_count, shown)).encode("utf-8", "surrogatepass")
