"""One number for all that an assignment depends on in the topics of a group; a changed number means a new assignment.

Called by `consumer.protocol` whenever subscriptions or topics may have changed; written down with the group's epoch (KIP-1101).
It is the sum of a number for each topic, so a topic is looked at once, and a group of fifty thousand costs some milliseconds.
Apache Kafka combines XXH3 here. No broker compares its numbers with another's but one that takes over the log, and that
one would assign again once; so it is a hash that Python has.
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
    """Make a signed 64-bit number of the ID, name, partition count and racks of those topics that exist; 0 if none does.

    Each name must come once. Each topic counts as it is when its piece comes.

    A topic never is again what it was before, as ids are given once and partitions only become more. So a group that finds the number
    that it knew has seen each topic as it was then.
    """
    total, left = 0, A_PIECE
    for name in names:
        left -= 1
        if (topic_id := topics.id_of(name)) is not None:
            total += _number(topic_id, name, topics)
            left -= topics.partition_count(topic_id)  # the racks of each are looked at
        if left <= 0:
            left = A_PIECE
            yield
    return _signed(total)


class MetadataHashes:
    """Results of `hashing` for all groups, which ask for the same topics with each new member."""

    def __init__(self, topics: TopicView) -> None:
        self._topics = topics
        self._numbers: dict[str, int] = {}
        """Of topics that exist; as many as there are, at most."""
        self._has_racks = False
        self._sums: dict[frozenset[str], int] = {}
        self._changes = 0

    def of(self, names: frozenset[str]) -> int:
        """As it was when somebody asked first since `topics_changed`: 0.1 us a topic that has been asked for, 2 us any other."""
        if (known := self._sums.get(names)) is not None:
            return known
        for name in names.difference(self._numbers):
            self._look_at(name)
        return self._keep(names, sum(map(self._numbers.get, names, repeat(0))))

    def existing(self, names: frozenset[str], most: int) -> list[str]:
        """The first of those of which there is a topic, in order."""
        self.of(names)
        return nsmallest(most, filter(self._numbers.__contains__, names))

    def preparing(self, names: frozenset[str]) -> Job:
        """Look at each topic that has not been asked for, one a piece, and have the sum, unless topics change again and again."""
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
        """These were created, deleted or got more partitions. Of partitions that other racks hold nobody tells: that is
        seen with the next change."""
        self._changes += 1
        self._sums.clear()
        if self._has_racks:
            self._numbers.clear()
        for name in names:
            self._numbers.pop(name, None)

    def forget(self) -> None:
        """Look at all topics again."""
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
