"""One member of a consumer group, as it was written down last. Members are values: a change makes another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ....protocol.messages.consumer_group_log import ClassicMemberMetadata

LEAVE_EPOCH = -1
"""A member that sends this epoch leaves for good."""
STATIC_LEAVE_EPOCH = -2
"""A static member that sends this epoch will be back; nobody else gets its partitions until its session ends."""

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch in which it was assigned; commits from before it are stale."""


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression at `resolved_ms`; `version` orders what is known of topics."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerMemberState(IntEnum):
    """How far a member is with the target assignment; numbers as in its records."""

    STABLE = 0
    """It has what it should have in its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions, and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by a newer coordinator; the member has to begin anew."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """
    Attributes:
        epoch: The target assignment's epoch that it has arrived in; 0 before the first, -2 while it is away.
        previous_epoch: The one before, which it still may name if our last answer was lost.
        topic_regex: None or empty while it has none.
        assigned: What it may use.
        revoking: What it must give up; still its own until it says so.
        classic: Set if it speaks the classic protocol.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: ConsumerMemberState = ConsumerMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is ConsumerMemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """Since when it has the partition; None if it has not."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


def away(member: ConsumerMember) -> ConsumerMember:
    """A static member that leaves for a while. What it has stays with it, and whoever takes its place may commit there
    in any epoch."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    return replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={})
