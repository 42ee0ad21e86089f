"""Members and heartbeats: find or make the member that sends a heartbeat, and apply its changes. No function changes a
group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ...coordination.jobs import Steps, to_the_end
from ..classic.protocol import Caller
from .group import ConsumerGroup
from .member import STATIC_LEAVE_EPOCH, ConsumerMember
from .reconciliation import Claim


def consumer_group(group_id: str, group: object, word: str = "Group") -> ConsumerGroup:
    """Return the group if it is a consumer group; else raise KafkaError GROUP_ID_NOT_FOUND."""
    if isinstance(group, ConsumerGroup):
        return group
    message = f"{word} {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def member_for(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, new_id: Callable[[], str]
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Return the member that sends this, known or new, and the static member that it replaces.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    if request.member_epoch != 0:
        member = group.identified(request.member_id, request.instance_id)
        _check_epoch(member, request)
        return member, None
    member_id, instance_id = request.member_id or new_id(), request.instance_id
    known = group.static_member(instance_id)
    if known is None:
        return group.members.get(member_id) or ConsumerMember(member_id), None
    if known.classic is None and known.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {known.member_id} member.",
        )
    return returned_member(known, member_id), known


def returned_member(known: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return a static member that returned, perhaps under another id: it keeps its partitions, and its epoch starts again."""
    return replace(known, member_id=member_id, epoch=0, previous_epoch=0)


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member whose epoch is not the coordinator's. The epoch before is allowed if the last
    answer may have been lost: then the member may own only partitions that it is assigned."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    claim = claim_of(request)
    is_previous = epoch == member.previous_epoch and epoch < member.epoch
    if (
        is_previous
        and claim is not None
        and all(partitions <= member.assigned.get(topic_id, {}).keys() for topic_id, partitions in claim.items())
    ):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def with_news(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> ConsumerMember:
    """Return the member with the fields of the request; fields that it leaves out have not changed."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    has_timeout = request.rebalance_timeout_ms != -1
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def claim_of(request: ConsumerGroupHeartbeatRequest) -> Claim:
    """Return the partitions that the member claims to own."""
    return to_the_end(claiming(request))


def claiming(request: ConsumerGroupHeartbeatRequest) -> Steps[Claim]:
    """`claim_of`, a topic a piece."""
    if request.topic_partitions is None:
        return None
    claim: dict[bytes, set[int]] = {}
    for topic in request.topic_partitions:
        claim.setdefault(topic.topic_id, set()).update(topic.partitions)
        yield
    return claim
