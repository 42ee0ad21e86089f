"""The common state of consumer, share and streams groups, whose members reach a target assignment heartbeat by heartbeat.

This module makes no decisions and writes no records. A group grows from epoch to epoch, and a target is computed for an epoch.
Each member reaches its part of the target at its own pace (KIP-848, KIP-932, KIP-1071).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import consumer_group_log, share_group_log, streams_group_log
from ..coordination.bell import Bell
from ..coordination.deadlines import Deadline
from .records import CommittedOffset

GroupMember = TypeVar("GroupMember")
Target = TypeVar("Target")


class ReconciledGroup(Generic[GroupMember, Target]):
    """
    Attributes:
        epoch: Number that grows with every change of the target's inputs.
        assignment_epoch: The group epoch that `targets` were computed for, at `assignment_ms` (0: never).
        metadata_hash: Hash of the group's topics, as they were when the epoch last grew.
        targets: Member id -> the member's target.
        sessions, waits: Member id -> deadline for its next heartbeat, and for a step that a rebalance requires. `reconciled_protocol`
            sets them; they are not in the log. Members of share groups have nothing to give up, and so no `waits`.
        refresh_at_ms: Time from which the next heartbeat looks up the topics again.
        topics_known_to: Number of topic changes that `refresh_at_ms` takes into account.
        assigned_at_ms: Time at which the target assignment was made; None: never. Like `refresh_at_ms` it is elapsed time and
            set by `protocol`. It is not in the log, which has the wall time.
        is_assigning: Whether a job is making a target assignment.
        static_members: Instance id -> member id. Share groups have none.
        bell: Rings when the group's epoch or its target changes, and when it is closed.
        released: Rings when the target changes, a member gives something up or leaves, and when the group is closed: others may get
            more than they have.
    """

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.epoch = 1
        self.assignment_epoch = 1
        self.assignment_ms = 0
        self.metadata_hash = 0
        self.members: dict[str, GroupMember] = {}
        self.targets: dict[str, Target] = {}
        self.sessions: dict[str, Deadline] = {}
        self.waits: dict[str, Deadline] = {}
        self.refresh_at_ms: int | None = None
        self.topics_known_to = 0
        self.assigned_at_ms: int | None = None
        self.is_assigning = False
        self.static_members: dict[str, str] = {}
        self.bell = Bell()
        self.released = Bell()

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def may_expire(self) -> bool:
        """See `kinds.Group`."""
        return not self.members

    def offsets_age_from(self) -> Callable[[CommittedOffset], int] | None:
        """See `kinds.Group`."""
        return lambda committed: committed.commit_ms

    def member(self, member_id: str) -> GroupMember:
        """Return the member. Raises KafkaError UNKNOWN_MEMBER_ID if it is not in the group."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def static_member(self, instance_id: str | None) -> GroupMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def identified(self, member_id: str, instance_id: str | None) -> GroupMember:
        """Return the member that sends a request. Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is None:
            return self.member(member_id)
        known = self.static_member(instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        owner_id = self.static_members[instance_id]
        if owner_id != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {owner_id}.",
            )
        return known

    def ring_if_moved(self, before: Any, after: Any) -> None:
        """Ring `released` if a member has other partitions or tasks than before, or gives up others."""
        if (before.assigned, before.revoking) != (after.assigned, after.revoking):
            self.released.ring()

    def is_at_rest(self, member_epoch: int, topic_changes: int, elapsed_ms: int) -> bool:
        """Whether a member in this epoch has its part of the newest target, and the topics need not be looked up.

        Args:
            topic_changes: Number of topic changes so far.
        """
        return (
            self.epoch <= self.assignment_epoch == member_epoch
            and self.topics_known_to == topic_changes
            and self.refresh_at_ms is not None
            and elapsed_ms < self.refresh_at_ms
        )


def target_metadata(
    group: ReconciledGroup[Any, Any],
    _key: object,
    value: consumer_group_log.ConsumerGroupTargetAssignmentMetadataValue
    | share_group_log.ShareGroupTargetAssignmentMetadataValue
    | streams_group_log.StreamsGroupTargetAssignmentMetadataValue
    | None,
) -> None:
    """Set the epoch and time of a group's target assignment from its record."""
    group.assignment_epoch = -1 if value is None else value.assignment_epoch
    group.assignment_ms = 0 if value is None else value.assignment_timestamp
    if group.bell:
        group.bell.ring()
    if group.released:
        group.released.ring()
