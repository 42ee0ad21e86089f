"""One member of a consumer group, as it was written down last. Members are values: a change makes another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ....protocol.messages.consumer_group_log import ClassicMemberMetadata
from ..kinds import Refusal, check_none
from ..settings import OWNED_MAX
from ..subscription import NAMES_MAX

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


# From this version on the client makes the member id (KIP-1082).
_CLIENT_MADE_ID_VERSION = 1
_TOO_MANY = "Too many {1} in the request ({0}, limit {2})."


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """What a ConsumerGroupHeartbeat must look like, whatever the group. A member is taken in at once, for everybody; so there are bounds on
    what it may name.

    Raises:
        KafkaError: INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, in the order in which Apache Kafka looks.
    """
    epoch, owned, names = request.member_epoch, request.topic_partitions or (), request.subscribed_topic_names or ()
    needs_member_id = version >= _CLIENT_MADE_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    owned_count = len(owned) + sum(len(one.partitions) for one in owned) if owned else 0
    check_none(
        (request.member_id == "" and needs_member_id, "MemberId can't be empty."),
        (request.group_id == "", "GroupId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        *_of_epoch(request, epoch),
        (len(names) > NAMES_MAX, _TOO_MANY.format(len(names), "subscribed topics", NAMES_MAX)),
        (owned_count > OWNED_MAX, _TOO_MANY.format(owned_count, "topics and partitions", OWNED_MAX)),
    )
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _of_epoch(request: ConsumerGroupHeartbeatRequest, epoch: int) -> tuple[Refusal, ...]:
    if epoch == 0:
        subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return (
            (request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
            (request.topic_partitions != (), "TopicPartitions must be empty when (re-)joining."),
            (not subscribes, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        )
    if epoch == STATIC_LEAVE_EPOCH:
        return ((request.instance_id is None, "InstanceId can't be null."),)
    return ((epoch < STATIC_LEAVE_EPOCH, f"MemberEpoch {epoch} is invalid."),)
