"""What consumer, share and streams groups have alike: members that come to a target assignment, heartbeat by heartbeat.

Nothing here decides or writes anything. A group grows from epoch to epoch; a target is computed for an epoch; each member goes towards
its part of it at its own pace (KIP-848, KIP-932, KIP-1071).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import consumer_group_log, share_group_log, streams_group_log
from ..coordination.deadlines import Deadline
from .records import CommittedOffset

GroupMember = TypeVar("GroupMember")
Target = TypeVar("Target")


class ReconciledGroup(Generic[GroupMember, Target]):
    """
    Attributes:
        epoch: Grows with every change of what the target depends on.
        assignment_epoch: The group epoch that `targets` were computed for, at `assignment_ms` (0: never).
        metadata_hash: Of the topics that it needs, as they were when the epoch grew last.
        targets: Member id -> what it should have.
        sessions, waits: Member id -> when its silence, and its delay in what a rebalance asks of it, has lasted too long. Set by
            `reconciled_protocol`, not in the log. Members of share groups have nothing to give up: nobody waits for them.
        refresh_at_ms: From then on the next heartbeat looks at the topics again.
        topics_known_to: The changes of topics that `refresh_at_ms` has heard of.
        assigned_at_ms: When the target assignment was made; None: never. Like `refresh_at_ms` in elapsed time, set by `protocol`, and
            not in the log, which has the wall time.
        is_assigning: A job is at that.
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
        """Raises KafkaError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def is_at_rest(self, member_epoch: int, topic_changes: int, elapsed_ms: int) -> bool:
        """Whether a member in this epoch has its part of the newest target, and no look at the topics is due.

        Args:
            topic_changes: How often topics have changed so far.
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
    """Take over what the record of a target assignment says of all of it."""
    group.assignment_epoch = -1 if value is None else value.assignment_epoch
    group.assignment_ms = 0 if value is None else value.assignment_timestamp
