"""Input and result of an assignor. The assignors are in `assignors`.

An assignor depends on its input only, and works in pieces: thousands of members and partitions take long. It assigns every
partition of every subscribed topic to exactly one of the topic's subscribers. A member keeps the partitions that it had, as
long as the assignment stays fair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias, TypeVar

from ...coordination.jobs import A_PIECE, Steps

Row = TypeVar("Row")

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic id -> partition indexes; no topic without partitions."""


class MemberSubscription(NamedTuple):
    """One member, as an assignor sees it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    """Ids of the existing topics that the member subscribes to, by name or by regular expression."""
    target: Assignment
    """The member's last assignment; it may contain topics that were deleted or are no longer subscribed to."""


class GroupSpec(NamedTuple):
    """A group, as an assignor sees it."""

    members: Mapping[str, MemberSubscription]
    """Members by member id, in the order of joining. A static member that returns keeps the place of the member it replaces."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""


Assignor: TypeAlias = Callable[[GroupSpec, Callable[[bytes], int]], Steps[Mapping[str, Assignment]]]
"""Function (group, partition count of a topic id) -> assignment by member id. A member that is left out gets no partitions."""


def rows_of(row: Callable[..., Row], assignment: Assignment) -> tuple[Row, ...]:
    """Return an assignment as rows of a message, by topic id and partition."""
    rows = []
    for topic_id, partitions in sorted(assignment.items()):
        rows.append(row(topic_id=topic_id, partitions=tuple(sorted(partitions))))
    return tuple(rows)


def frozen(by_topic: Mapping[bytes, AbstractSet[int]]) -> Steps[Assignment]:
    """Return an assignment that cannot change, without topics that have no partitions; some topics a piece."""
    found: dict[bytes, frozenset[int]] = {}
    for number, (topic_id, indexes) in enumerate(by_topic.items(), 1):
        if indexes:
            found[topic_id] = frozenset(indexes)
        if number % A_PIECE == 0:
            yield
    return found


def by_topic(places: Iterable[tuple[bytes, int]]) -> Steps[Assignment]:
    """Return an assignment made from pairs of topic id and partition; some pairs a piece."""
    found: dict[bytes, set[int]] = {}
    for number, (topic_id, index) in enumerate(places, 1):
        found.setdefault(topic_id, set()).add(index)
        if number % A_PIECE == 0:
            yield
    return (yield from frozen(found))
