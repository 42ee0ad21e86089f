"""Which topics have changed lately: groups ask, as telling them all would take long where there are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import Protocol

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
    """Topics that were created, deleted or got more partitions, since the coordinator began."""

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
