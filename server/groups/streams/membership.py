"""Who sends a heartbeat: the member is found or made, and its news are taken. Nothing here changes a group."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import streams_group_heartbeat as message
from ....protocol.messages.streams_group_heartbeat import Endpoint, StreamsGroupHeartbeatRequest
from ..classic.protocol import Caller
from .configured import Configured
from .group import StreamsGroup
from .member import NO_TASKS, StreamsMember, StreamsTasks

log = logging.getLogger("ottla.groups")


def streams_group(group_id: str, group: object, not_found: str = "Streams group {} not found.") -> StreamsGroup:
    """The group, if there is one and it is a streams group; else raises KafkaError GROUP_ID_NOT_FOUND."""
    if isinstance(group, StreamsGroup):
        return group
    text = not_found.format(group_id) if group is None else f"Group {group_id} is not a streams group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def member_for(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The member that sends this, as it is known or as it joins; one that joins again keeps what it has.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    if request.member_epoch == 0:
        log.info("group %s: member %s joins", group.group_id, request.member_id)
        return group.members.get(request.member_id) or StreamsMember(request.member_id)
    member = group.member(request.member_id)
    _check_epoch(member, request)
    return member


def _check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member that knows another epoch than we do, unless our last answer may have been
    lost: then it names the epoch before, and has no task but those that it may have."""
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    claim = claim_of(request)
    if epoch == member.previous_epoch and epoch < member.epoch and claim is not None and member.assigned.holds(claim):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) than"
        f" the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions and"
        " rejoin.",
    )


def with_news(member: StreamsMember, request: StreamsGroupHeartbeatRequest, caller: Caller) -> StreamsMember:
    """The member with what the request says; what it leaves out has not changed."""
    endpoint, tags = request.user_endpoint, request.client_tags
    has_timeout = request.rebalance_timeout_ms != -1
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=member.client_tags if tags is None else {one.key: one.value for one in tags},
    )


def claim_of(request: StreamsGroupHeartbeatRequest) -> StreamsTasks | None:
    """What the member says it has; None if it does not say."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    if not (active or standby or warmup):
        return NO_TASKS
    return StreamsTasks(_places(active), _places(standby), _places(warmup))


def check_claim(claim: StreamsTasks | None, configured: Configured) -> None:
    """Raise KafkaError INVALID_REQUEST if the member says it has a task that there is not."""
    if claim is None or configured.subtopologies is None:
        return
    for role in claim:
        for subtopology, partitions in role.items():
            one = configured.subtopologies.get(subtopology)
            if one is None:
                text = f"Subtopology {subtopology} does not exist in the topology."
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            for partition in partitions:
                if not 0 <= partition < one.tasks:
                    text = f"Task {partition} for subtopology {subtopology} is invalid. Number of tasks for this"
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{text} subtopology: {one.tasks}")


def _places(rows: Sequence[message.TaskIds]) -> dict[str, frozenset[int]]:
    places: dict[str, set[int]] = {}
    for one in rows:
        places.setdefault(one.subtopology_id, set()).update(one.partitions)
    return {subtopology: frozenset(partitions) for subtopology, partitions in places.items() if partitions}
