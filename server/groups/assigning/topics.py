"""What consumer groups ask of the broker's topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ...coordination.jobs import A_PIECE, Steps


class TopicView(Protocol):
    """The topics as they are at this moment; internal ones are there too. `server/groups/service` has the real one."""

    def names(self) -> Iterable[str]: ...

    def id_of(self, name: str) -> bytes | None:
        """The topic's id; None if there is no such topic."""

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic's name; None if there is no such topic."""

    def partition_count(self, topic_id: bytes) -> int:
        """0 if there is no such topic."""

    def racks(self, topic_id: bytes) -> Sequence[Sequence[str]]:
        """For each partition the racks of the nodes that hold it, in the order of the replicas; nodes without rack are
        left out. May be empty where no node has one."""


def ids_of(names: Iterable[str], topics: TopicView) -> Steps[frozenset[bytes]]:
    """Ids of those of the topics that there are when their piece comes."""
    found: set[bytes] = set()
    for number, name in enumerate(names, 1):
        if (topic_id := topics.id_of(name)) is not None:
            found.add(topic_id)
        if number % A_PIECE == 0:
            yield
    return frozenset(found)
