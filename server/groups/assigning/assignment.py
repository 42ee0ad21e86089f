"""What an assignor is given and what it gives back. The assignors themselves are in `assignors`.

An assignor depends on nothing else, and works in pieces: thousands of members and partitions take long. Every partition of every topic that somebody subscribes to goes to exactly one member
subscribed to it; what a member had before, it keeps as far as that is fair.
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
    """One member as an assignor sees it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    """Of all existing topics that it subscribes to, by name or by regular expression."""
    target: Assignment
    """What it was given last time; may name topics that are gone or no longer subscribed to."""


class GroupSpec(NamedTuple):
    """A group as an assignor sees it."""

    members: Mapping[str, MemberSubscription]
    """By member id, in the order of joining. A static member's place is kept by whoever took it over."""
    is_homogeneous: bool
    """All members subscribe to the same topics."""


Assignor: TypeAlias = Callable[[GroupSpec, Callable[[bytes], int]], Steps[Mapping[str, Assignment]]]
"""(group, partition count of a topic id) -> assignment by member id. A member left out gets nothing."""


def rows_of(row: Callable[..., Row], assignment: Assignment) -> tuple[Row, ...]:
    """An assignment as rows of a message, in order."""
    rows = []
    for topic_id, partitions in sorted(assignment.items()):
        rows.append(row(topic_id=topic_id, partitions=tuple(sorted(partitions))))
    return tuple(rows)


def frozen(by_topic: Mapping[bytes, AbstractSet[int]]) -> Steps[Assignment]:
    """What a member is given, some topics a piece; no topic without partitions."""
    found: dict[bytes, frozenset[int]] = {}
    for number, (topic_id, indexes) in enumerate(by_topic.items(), 1):
        if indexes:
            found[topic_id] = frozenset(indexes)
        if number % A_PIECE == 0:
            yield
    return found


def by_topic(places: Iterable[tuple[bytes, int]]) -> Steps[Assignment]:
    """What a member is given, of topic ids and partitions; some a piece."""
    found: dict[bytes, set[int]] = {}
    for number, (topic_id, index) in enumerate(places, 1):
        found.setdefault(topic_id, set()).add(index)
        if number % A_PIECE == 0:
            yield
    return (yield from frozen(found))
