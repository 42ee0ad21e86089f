"""One number for all that an assignment depends on in the topics of a group; a changed number means a new assignment.

Called by `protocol` whenever subscriptions or topics may have changed; written down with the group's epoch (KIP-1101).
Apache Kafka takes XXH3 here. No broker compares its numbers with another's but one that takes over the log, and that
one would assign anew once; so it is a hash that Python has.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from .topics import TopicView


def metadata_hash(names: Iterable[str], topics: TopicView) -> int:
    """A signed 64-bit number made of id, name, partition count and racks of those topics that exist; 0 if none does."""
    known = sorted((name, topic_id) for name in set(names) if (topic_id := topics.id_of(name)) is not None)
    if not known:
        return 0
    digest = blake2b(digest_size=8)
    for name, topic_id in known:
        racks = [sorted(one) for one in topics.racks(topic_id)]
        digest.update(repr((topic_id, name, topics.partition_count(topic_id), racks)).encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest(), "big", signed=True)
