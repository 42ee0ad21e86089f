"""Who is told of changes of topics, in the turn in which everybody sees them."""

from __future__ import annotations

from .topics import Partition, Topic


class Watcher:
    """Whoever keeps something that hangs on topics; what it need not know of it leaves as it is here. Nothing may raise."""

    def leader_moved(self, partition: Partition) -> None:
        """Another node leads the partition, or none."""

    def topic_created(self, topic: Topic) -> None:
        """A topic was created."""

    def topic_grew(self, topic: Topic) -> None:
        """A topic got more partitions."""

    def topic_deleted(self, topic: Topic) -> None:
        """Nobody finds the topic any more; it still has its partitions."""

    def lost(self, partition: Partition, now_ms: int) -> None:
        """What was appended to a partition of the broker's own will never be on disk."""
