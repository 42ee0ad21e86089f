"""What consumer groups ask of the broker's topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
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


# A group that has not heard of this many changes of topics looks at its topics whichever they were.
_CHANGES_KEPT = 1_024


class Hearing(Protocol):
    """A group, as far as it hears of changes."""

    refresh_at_ms: int | None
    """From then on it looks at its topics again; None: at once."""
    topics_known_to: int
    """How many changes it has heard of."""

    def subscribes_to(self, topic: str) -> bool: ...


class TopicChanges:
    """Topics that were created, deleted or got more partitions, since the coordinator began.

    Groups ask which have changed lately, as telling them all would take long where there are many.
    """

    def __init__(self) -> None:
        self._names: deque[str] = deque(maxlen=_CHANGES_KEPT)
        self.count = 0
        """How often a topic has changed; the last names are in `_names`."""

    def add(self, names: Collection[str]) -> None:
        self._names.extend(names)
        self.count += len(names)

    def tell(self, group: Hearing, concerns: Callable[[str], object] | None = None) -> None:
        """Let the group look at the topics again if one that `concerns` it has changed since it last heard of changes: one that
        it subscribes to, unless told otherwise."""
        unheard, group.topics_known_to = self.count - group.topics_known_to, self.count
        if group.refresh_at_ms is None:
            return
        lately = islice(reversed(self._names), unheard)
        if unheard > len(self._names) or any(map(concerns or group.subscribes_to, lately)):
            group.refresh_at_ms = None
