"""Members and heartbeats: find or make the member that sends a heartbeat, and apply its changes. No function changes a
group."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages import streams_group_heartbeat as message
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, TaskOffset
from ..classic.protocol import Caller
from .configured import Configured
from .group import StreamsGroup, TaskOffsets
from .member import NO_TASKS, STATIC_LEAVE_EPOCH, StreamsMember, StreamsTasks, returned

log = logging.getLogger("ottla.groups")


def streams_group(group_id: str, group: object, not_found: str = "Streams group {} not found.") -> StreamsGroup:
    """Return the group if it is a streams group; else raise KafkaError GROUP_ID_NOT_FOUND."""
    if isinstance(group, StreamsGroup):
        return group
    text = not_found.format(group_id) if group is None else f"Group {group_id} is not a streams group."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def member_for(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest
) -> tuple[StreamsMember, StreamsMember | None]:
    """Return the member that sends this, known or new, and the static member that it replaces. A member that joins again keeps
    its tasks.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID.
    """
    member_id, instance_id = request.member_id, request.instance_id
    if request.member_epoch == 0:
        known = group.static_member(instance_id)
        if known is None:
            return group.members.get(member_id) or StreamsMember(member_id), None
        if known.epoch != STATIC_LEAVE_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id"
                f" is owned by {known.member_id} member.",
            )
        return returned(known, member_id), known
    member = group.identified(request.member_id, request.instance_id)
    _check_epoch(member, request)
    return member, None


def _check_epoch(member: StreamsMember, request: StreamsGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH for a member whose epoch is not the coordinator's. The epoch before is allowed if the last
    answer may have been lost: then the member may have only tasks that it is assigned."""
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
    """Return the member with the fields of the request; fields that it leaves out have not changed. Only a member that joins
    without an endpoint loses the one that it had."""
    endpoint, tags = request.user_endpoint, request.client_tags
    keeps_endpoint = endpoint is None and request.member_epoch != 0
    has_timeout = request.rebalance_timeout_ms != -1
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=member.user_endpoint if keeps_endpoint else endpoint,
        client_tags=member.client_tags if tags is None else {one.key: one.value for one in tags},
    )


def claim_of(request: StreamsGroupHeartbeatRequest) -> StreamsTasks | None:
    """Return the tasks that the member claims to have; None if the request does not contain them."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    if not (active or standby or warmup):
        return NO_TASKS
    return StreamsTasks(_places(active), _places(standby), _places(warmup))


def reported(request: StreamsGroupHeartbeatRequest, before: TaskOffsets) -> TaskOffsets:
    """Return the offsets of the member's tasks: those in the request, and `before` where it has none.

    Raises:
        KafkaError: INVALID_REQUEST: a task is named twice.
    """
    return TaskOffsets(_by_task(request.task_offsets, before.offsets), _by_task(request.task_end_offsets, before.ends))


def _by_task(rows: Sequence[TaskOffset] | None, before: tuple[TaskOffset, ...]) -> tuple[TaskOffset, ...]:
    if rows is None:
        return before
    found: dict[tuple[str, int], TaskOffset] = {}
    for one in rows:
        task = one.subtopology_id, one.partition
        if task in found:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Task offsets contain a duplicate entry for subtopology {one.subtopology_id} and partition"
                f" {one.partition}.",
            )
        found[task] = one
    return tuple(found[task] for task in sorted(found))


def check_claim(claim: StreamsTasks | None, configured: Configured) -> None:
    """Raise KafkaError INVALID_REQUEST if the member claims to have a task that does not exist."""
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
