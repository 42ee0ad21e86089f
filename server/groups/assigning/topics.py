"""View of the broker's topics for consumer groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Protocol

from ...coordination.jobs import A_PIECE, Steps


class TopicView(Protocol):
    """View of the broker's present topics, internal ones included. `server/groups/service` implements it."""

    def names(self) -> Iterable[str]: ...

    def id_of(self, name: str) -> bytes | None:
        """Return the topic's id; None if the topic does not exist."""

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the topic's name; None if the topic does not exist."""

    def partition_count(self, topic_id: bytes) -> int:
        """Return the number of partitions; 0 if the topic does not exist."""

    def racks(self, topic_id: bytes) -> Sequence[Sequence[str]]:
        """Return the racks of each partition's replicas, in the order of the replicas. Nodes without a rack are left out. May be
        empty if no node has a rack."""


def ids_of(names: Iterable[str], topics: TopicView) -> Steps[frozenset[bytes]]:
    """Collect the ids of the topics that exist when their piece runs."""
    found: set[bytes] = set()
    for number, name in enumerate(names, 1):
        if (topic_id := topics.id_of(name)) is not None:
            found.add(topic_id)
        if number % A_PIECE == 0:
            yield
    return frozenset(found)


# A group that has missed more changes than this looks up its topics again, whatever changed.
_CHANGES_KEPT = 1_024


class TopicChangeSubscription(Protocol):
    """The part of a group that follows topic changes."""

    refresh_at_ms: int | None
    """Time from which the group looks up its topics again; None: at once."""
    topics_known_to: int
    """Number of changes that the group has taken notice of."""

    def subscribes_to(self, topic: str) -> bool: ...


class TopicChanges:
    """Topics that were created, deleted or got more partitions, since the coordinator began.

    Groups ask which have changed lately, as telling them all would take long where there are many.
    """

    def __init__(self) -> None:
        self._names: deque[str] = deque(maxlen=_CHANGES_KEPT)
        self.count = 0
        """Number of changes; the last names are in `_names`."""

    def add(self, names: Collection[str]) -> None:
        self._names.extend(names)
        self.count += len(names)

    def notify(self, group: TopicChangeSubscription, concerns: Callable[[str], object] | None = None) -> None:
        """Make the group look up its topics again if a relevant topic has changed since its last call. `concerns` decides
        whether a topic is relevant; by default it is if the group subscribes to it."""
        unheard, group.topics_known_to = self.count - group.topics_known_to, self.count
        if group.refresh_at_ms is None:
            return
        lately = islice(reversed(self._names), unheard)
        if unheard > len(self._names) or any(map(concerns or group.subscribes_to, lately)):
            group.refresh_at_ms = None
