"""Requests to both brokers, as plain tuples.

A step can be sent to either broker: epochs and tasks are those that the broker returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

JOIN, LEAVE, AWAY = 0, -1, -2
"""Member epochs."""


class Beat(NamedTuple):
    """StreamsGroupHeartbeat. `epoch` None stands for the member's last returned epoch, to which `off` is added."""

    group: str
    member: str
    epoch: int | None = None
    off: int = 0
    says: str = "all"
    """The tasks that the member claims to have: a name in `asking.CLAIMS`."""
    fields: Mapping[str, Any] = MappingProxyType({})
    brings: str | None = None
    """A topology, by its name in `topologies`."""
    knows_endpoints: bool = True
    """Whether the heartbeat has the last returned epoch of endpoints."""
    version: int = 1

    @property
    def is_join(self) -> bool:
        return self.epoch == JOIN

    @property
    def is_leave(self) -> bool:
        return self.epoch == LEAVE

    @property
    def is_away(self) -> bool:
        """Whether a static member leaves for a while."""
        return self.epoch == AWAY


class Look(NamedTuple):
    """StreamsGroupDescribe, DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe, ListGroups."""

    group: str


class Describe(NamedTuple):
    """StreamsGroupTopologyDescriptionUpdate: a member describes the group's topology, named as in `descriptions`."""

    group: str
    member: str
    topology_epoch: int
    says: str


class Commit(NamedTuple):
    """OffsetCommit of the member's first task that reads the topic, or of partition 0."""

    group: str
    member: str
    topic: str
    epoch: int | None = None
    off: int = 0
    version: int = 9


class Read(NamedTuple):
    """OffsetFetch of a topic; `member` None is an administrator."""

    group: str
    member: str | None
    topic: str
    off: int = 0


class Configure(NamedTuple):
    """A config of the group; None deletes it."""

    group: str
    name: str
    value: str | None


class Topic(NamedTuple):
    """The topic gets this number of partitions: it is created, expanded, or, with 0, deleted."""

    name: str
    partitions: int


class DeleteGroup(NamedTuple):
    group: str


class DeleteOffsets(NamedTuple):
    group: str
    topic: str


class OtherBeat(NamedTuple):
    """ConsumerGroupHeartbeat, or ShareGroupHeartbeat, of a member that joins."""

    group: str
    member: str
    kind: str


class Classic(NamedTuple):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup of one member; the broker names it when it joins first."""

    group: str
    what: str
    protocol: str = "stream"
    protocol_type: str = "consumer"


class Pause(NamedTuple):
    seconds: float


Step = (
    Beat
    | Look
    | Describe
    | Commit
    | Read
    | Configure
    | Topic
    | DeleteGroup
    | DeleteOffsets
    | OtherBeat
    | Classic
    | Pause
)
