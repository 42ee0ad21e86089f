"""One number for all that an assignment depends on in the topics of a group; a changed number means a new assignment.

Called by `protocol` whenever subscriptions or topics may have changed; written down with the group's epoch (KIP-1101).
Apache Kafka takes XXH3 here. No broker compares its numbers with another's but one that takes over the log, and that
one would assign anew once; so it is a hash that Python has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from .topics import TopicView

KEPT = 1 << 14
"""Topics whose part is kept: a group that matches all topics asks for all of them with each member that joins."""


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """A signed 64-bit number made of id, name, partition count and racks of those topics that exist; 0 if none does."""
    known = sorted((name, topic_id) for name in set(names) if (topic_id := topics.id_of(name)) is not None)
    if not known:
        return 0
    parts = []
    for name, topic_id in known:
        racks = topics.racks(topic_id)
        shown = tuple(map(tuple, racks)) if any(racks) else ()
        parts.append(_described(topic_id, name, topics.partition_count(topic_id), shown))
    digest = blake2b(b"".join(parts), digest_size=8)
    return int.from_bytes(digest.digest(), "big", signed=True)


@lru_cache(KEPT)
def _described(topic_id: bytes, name: str, partition_count: int, racks: tuple[tuple[str, ...], ...]) -> bytes:
    """What one topic adds; `racks` is empty where no partition has any."""
    shown = [sorted(one) for one in racks or ((),) * partition_count]
    return repr((topic_id, name, partition_count, shown)).encode("utf-8", "surrogatepass")
