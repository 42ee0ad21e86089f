"""What a ConsumerGroupHeartbeat must look like, whatever the group.

A member is taken in at once, for everybody; so there are bounds on what it may name.
"""

from __future__ import annotations

from collections.abc import Collection

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ..kinds import Refusal, check_none
from ..settings import OWNED_MAX
from ..subscription import NAMES_MAX
from .member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH

# From this version on the client makes the member id (KIP-1082).
_CLIENT_MADE_ID_VERSION = 1
_TOO_MANY = "Too many {1} in the request ({0}, limit {2})."


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, in the order in which Apache Kafka looks."""
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
