"""One member of a share group, as it was written down last. Members are values: a change makes another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..assigning.assignment import Assignment

LEAVE_EPOCH = -1
"""A member that sends this epoch leaves."""
STABLE = 0
"""The only state that a member of a share group is in: it gives nothing up, so it has at once what it should have."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    """
    Attributes:
        epoch: The target assignment's epoch that it has arrived in; 0 before the first.
        previous_epoch: The one before, which it still may name if our last answer was lost.
        state: As in its record; others than STABLE come from newer coordinators.
        assigned: What it may fetch from. Others may have the same partitions.
    """

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict)
