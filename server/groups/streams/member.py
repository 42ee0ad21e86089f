"""One member of a streams group, as it was written down last. Members are values: a change makes another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ....protocol.messages.streams_group_heartbeat import Endpoint

LEAVE_EPOCH = -1
"""A member that sends this epoch leaves."""

Places: TypeAlias = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions, each of which is a task; no subtopology without partitions."""
Epochs: TypeAlias = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> the member epoch in which it was assigned; commits from before it are stale."""

_NONE: Places = {}
_NO_EPOCHS: Epochs = {}


class StreamsTasks(NamedTuple):
    """What a member should have, or says it has."""

    active: Places = _NONE
    standby: Places = _NONE
    warmup: Places = _NONE


class Owned(NamedTuple):
    """What a member has, or must give up."""

    active: Epochs = _NO_EPOCHS
    standby: Places = _NONE
    warmup: Places = _NONE

    @property
    def tasks(self) -> StreamsTasks:
        """Without epochs."""
        return StreamsTasks({key: frozenset(one) for key, one in self.active.items()}, self.standby, self.warmup)

    def shares_any(self, tasks: StreamsTasks) -> bool:
        """Whether any of `tasks` is here, in the same role."""
        return any(
            not tasks_of_one.isdisjoint(mine.get(subtopology, ()))
            for mine, named in zip(self, tasks, strict=True)
            for subtopology, tasks_of_one in named.items()
        )

    def holds(self, tasks: StreamsTasks) -> bool:
        """Whether all of `tasks` are here, in the same role."""
        return all(
            partition in _of(mine, subtopology)
            for mine, named in zip(self, tasks, strict=True)
            for subtopology, partitions in named.items()
            for partition in partitions
        )


def _of(mine: Mapping[str, Collection[int]], subtopology: str) -> Collection[int]:
    return mine.get(subtopology, ())


NO_TASKS = StreamsTasks()
NOTHING = Owned()


class StreamsMemberState(IntEnum):
    """How far a member is with the target assignment; numbers as in its records."""

    STABLE = 1
    """It has what it should have in its epoch."""
    UNREVOKED_TASKS = 2
    """It must give up tasks, and has not said yet that it did."""
    UNRELEASED_TASKS = 3
    """It waits for tasks that others have not given up yet."""
    UNKNOWN = 127
    """Written by a newer coordinator; the member has to begin anew."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """
    Attributes:
        epoch: The target assignment's epoch that it has arrived in; 0 before the first.
        previous_epoch: The one before, which it still may name if our last answer was lost.
        topology_epoch: Of the topology that it brought along.
        process_id: Members of one process share its state directory: it has a task once, whatever for.
        user_endpoint: Where it answers questions about its state (interactive queries).
        assigned: What it may use.
        revoking: What it must give up; still its own until it says so.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: Owned = NOTHING
    revoking: Owned = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """Since when it has this active task; None if it has not."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch
