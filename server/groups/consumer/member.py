"""One member of a consumer group, as it was last written. Members are values: a change makes a new object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ....protocol.messages.consumer_group_log import ClassicMemberMetadata
from ..kinds import check_none
from ..settings import OWNED_MAX
from ..subscription import NAMES_MAX

LEAVE_EPOCH = -1
"""Epoch of a member that leaves for good."""
STATIC_LEAVE_EPOCH = -2
"""Epoch of a static member that leaves for a while. Its partitions stay its own until its session expires."""

Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> the member epoch in which it was assigned. Commits with an earlier epoch are stale."""


class ResolvedRegex(NamedTuple):
    """The topics that matched a regular expression at `resolved_ms`; `version` orders the states of the topics."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


class ConsumerMemberState(IntEnum):
    """Progress of a member towards the target assignment; numbers as in its records."""

    STABLE = 0
    """The member has its target of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """The member must give up partitions, and has not confirmed that it did."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not given up yet."""
    UNKNOWN = 127
    """State that a newer coordinator wrote; the member must start from the beginning."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """
    Attributes:
        epoch: Epoch of the target assignment that the member has reached; 0 before the first, -2 while it is away.
        previous_epoch: The epoch before, which the member may still send if the last answer was lost.
        topic_regex: Regular expression that the member subscribes to; None or empty without one.
        assigned: Partitions that the member may use.
        revoking: Partitions that the member must give up, and owns until it confirms that.
        classic: Set if the member uses the classic protocol.
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
        """Return the epoch since which the member has the partition; None if it does not have it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch


def away(member: ConsumerMember) -> ConsumerMember:
    """Return a static member that leaves for a while. Its partitions stay with it, and the member that replaces it may commit
    them in any epoch."""
    assigned = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
    return replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=assigned, revoking={})


# From this version on, the client makes the member id (KIP-1082).
_CLIENT_MADE_ID_VERSION = 1
_TOO_MANY = "Too many {1} in the request ({0}, limit {2})."


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Check a ConsumerGroupHeartbeat, without regard to the group.

    A member is added in one piece, during which other requests wait. So the numbers of topics and partitions that it may name
    are bounded.

    Raises:
        KafkaError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR; the checks are in Apache Kafka's order.
    """
    epoch, owned, names = request.member_epoch, request.topic_partitions or (), request.subscribed_topic_names or ()
    needs_member_id = version >= _CLIENT_MADE_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    joins = epoch == 0
    owned_count = len(owned) + sum(len(one.partitions) for one in owned) if owned else 0
    check_none(
        (request.member_id == "" and needs_member_id, "MemberId can't be empty."),
        (request.group_id == "", "GroupId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (joins and request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (joins and request.topic_partitions != (), "TopicPartitions must be empty when (re-)joining."),
        (
            joins and request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (epoch == STATIC_LEAVE_EPOCH and request.instance_id is None, "InstanceId can't be null."),
        (epoch < STATIC_LEAVE_EPOCH, f"MemberEpoch {epoch} is invalid."),
        (len(names) > NAMES_MAX, _TOO_MANY.format(len(names), "subscribed topics", NAMES_MAX)),
        (owned_count > OWNED_MAX, _TOO_MANY.format(owned_count, "topics and partitions", OWNED_MAX)),
    )
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )
