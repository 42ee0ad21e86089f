"""Requests to one group, as plain tuples."""

from __future__ import annotations

from typing import NamedTuple

Place = tuple[str, int]
Places = tuple[Place, ...]


class Beat(NamedTuple):
    """ConsumerGroupHeartbeat; a field without a value is None."""

    member: str
    epoch: int
    instance: str | None = None
    topics: tuple[str, ...] | None = None
    owns: Places | None = None
    is_full: bool = False
    """Whether the heartbeat has a rebalance time-out."""


class Join(NamedTuple):
    member: str
    instance: str | None
    topics: tuple[str, ...]
    owns: Places
    protocols: tuple[str, ...] = ("range",)
    version: int = 9


class Sync(NamedTuple):
    member: str
    generation: int
    instance: str | None
    protocol: str | None = "range"
    gives: Places = ()
    """The assignment that the leader, the group's only member, gives itself."""


class Alive(NamedTuple):
    """Heartbeat of the classic protocol."""

    member: str
    generation: int
    instance: str | None


class Leave(NamedTuple):
    members: tuple[tuple[str, str | None], ...]


class Commit(NamedTuple):
    member: str
    epoch: int
    instance: str | None
    places: Places
    version: int


class Fetch(NamedTuple):
    member: str | None
    epoch: int


class Delete(NamedTuple):
    places: Places


class Describe(NamedTuple):
    """All requests of an administrator about the group."""


Step = Beat | Join | Sync | Alive | Leave | Commit | Fetch | Delete | Describe
