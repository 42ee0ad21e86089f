"""What a ConsumerGroupHeartbeat must look like, whatever the group.

A member is taken in at once, for everybody; so there are bounds on what it may name.
"""

from __future__ import annotations

from collections.abc import Collection

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ..settings import OWNED_MAX
from ..subscription import NAMES_MAX
from .member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH

# From this version on the client makes the member id (KIP-1082).
_CLIENT_MADE_ID_VERSION = 1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, in the order in which Apache Kafka looks."""
    epoch = request.member_epoch
    needs_member_id = version >= _CLIENT_MADE_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH
    _check(request.member_id != "" or not needs_member_id, "MemberId can't be empty.")
    _check(request.group_id != "", "GroupId can't be empty.")
    _check(request.instance_id != "", "InstanceId can't be empty.")
    _check(request.rack_id != "", "RackId can't be empty.")
    if epoch == 0:
        _check(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        _check(request.topic_partitions == (), "TopicPartitions must be empty when (re-)joining.")
        _check(
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == STATIC_LEAVE_EPOCH:
        _check(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _check(epoch > STATIC_LEAVE_EPOCH, f"MemberEpoch {epoch} is invalid.")
    owned = request.topic_partitions or ()
    for count, most, what in (
        (len(request.subscribed_topic_names or ()), NAMES_MAX, "topics to subscribe to"),
        (len(owned) + sum(len(one.partitions) for one in owned), OWNED_MAX, "topics and partitions of them"),
    ):
        _check(count <= most, f"The member names {count} {what}; at most {most} are allowed.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check(is_valid: bool, message: str) -> None:
    if not is_valid:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
