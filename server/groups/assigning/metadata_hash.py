"""One number for all properties of a group's topics that an assignment depends on. A new number means a new assignment.

`consumer.protocol` computes it whenever subscriptions or topics may have changed, and writes it with the group's epoch
(KIP-1101). It is the sum of one number per topic, so each topic is looked up once; a group of fifty thousand topics takes some
milliseconds.

Apache Kafka combines XXH3 hashes here. Only a broker that takes over the log compares its numbers with those of another broker,
and it would then assign once more. So a hash that Python has is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from heapq import nsmallest
from itertools import islice, repeat

from ...coordination.jobs import A_PIECE, AT_ONCE, Job, Steps
from .topics import TopicView

SUMS_KEPT = 16
TRIES = 3
_BITS = 64


def hashing(names: Iterable[str], topics: TopicView) -> Steps[int]:
    """Make a signed 64-bit number of the id, name, partition count and racks of the topics that exist; 0 if none exists.

    `names` must not repeat a name. Each topic is read in the state that it has when its piece runs.

    A topic never returns to an earlier state: ids are used once, and partitions are only added. So if a group finds the number
    that it knew, it has seen each topic in the state of that time.
    """
    total, left = 0, A_PIECE
    for name in names:
        left -= 1
        if (topic_id := topics.id_of(name)) is not None:
            total += _number(topic_id, name, topics)
            left -= topics.partition_count(topic_id)  # the racks of each partition are looked up
        if left <= 0:
            left = A_PIECE
            yield
    return _signed(total)


class MetadataHashes:
    """Cached results of `hashing`. All groups share it, since they ask for the same topics with each member that joins."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._numbers: dict[str, int] = {}
        """Hashes of existing topics, by name; at most one per topic."""
        self._has_racks = False
        self._sums: dict[frozenset[str], int] = {}
        self._changes = 0

    def hash_of(self, names: frozenset[str]) -> int:
        """Return the hash of these names, as it was at the first call since `topics_changed`. A known topic takes 0.1 us, any
        other 2 us."""
        if (known := self._sums.get(names)) is not None:
            return known
        for name in names.difference(self._numbers):
            self._look_at(name)
        return self._keep(names, sum(map(self._numbers.get, names, repeat(0))))

    def is_soon_known(self, names: frozenset[str]) -> bool:
        """Whether `hash_of` looks at few topics."""
        return names in self._sums or len(names.difference(self._numbers)) <= AT_ONCE

    def existing_names(self, names: frozenset[str], most: int) -> list[str]:
        """Return the first `most` of these names, in order, that are names of existing topics."""
        self.hash_of(names)
        return nsmallest(most, filter(self._numbers.__contains__, names))

    def preparing(self, names: frozenset[str]) -> Job:
        """Hash each topic that is not known, one a piece, and keep the sum, unless topics change again and again."""
        if names in self._sums:
            return
        for _ in range(TRIES):
            changes, total, left = self._changes, 0, iter(names)
            while some := tuple(islice(left, AT_ONCE)):
                for name in some:
                    if name not in self._numbers:
                        self._look_at(name)
                        yield
                total += sum(map(self._numbers.get, some, repeat(0)))
                yield
            if changes == self._changes:
                self._keep(names, total)
                return

    def _keep(self, names: frozenset[str], total: int) -> int:
        if len(self._sums) >= SUMS_KEPT:
            self._sums.clear()
        kept = self._sums[names] = _signed(total)
        return kept

    def _look_at(self, name: str) -> None:
        if (topic_id := self._topics.id_of(name)) is not None:
            self._numbers[name] = _number(topic_id, name, self._topics)
            self._has_racks |= any(self._topics.racks(topic_id))

    def topics_changed(self, names: Collection[str]) -> None:
        """Forget topics that were created, deleted or got more partitions. A change of the replicas' racks is not notified: it
        is seen with the next change."""
        self._changes += 1
        self._sums.clear()
        if self._has_racks:
            self._numbers.clear()
        for name in names:
            self._numbers.pop(name, None)

    def forget(self) -> None:
        """Forget all topics."""
        self._changes += 1
        self._sums.clear()
        self._numbers.clear()


def _number(topic_id: bytes, name: str, topics: TopicView) -> int:
    racks = topics.racks(topic_id)
    shown = [sorted(one) for one in racks] if any(racks) else ()
    text = repr((topic_id, name, topics.partition_count(topic_id), shown)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=_BITS // 8).digest(), "big")


def _signed(total: int) -> int:
    half = 1 << (_BITS - 1)
    return (total + half) % (2 * half) - half
