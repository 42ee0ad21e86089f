"""What a member hears: the answer to its heartbeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ....protocol.messages import streams_group_heartbeat as message
from ....protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from .configured import InternalTopic, StatusCode
from .group import StreamsGroup
from .member import StreamsMember, StreamsTasks
from .records import rows_of
from .transition import StreamsTransition


class Heard(NamedTuple):
    """
    Attributes:
        missing: Internal topics that are to be made for the group, by name.
        wants_endpoints: The answer is to name all that `describing.endpoints` finds.
    """

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = {}
    wants_endpoints: bool = False


def answered(
    group: StreamsGroup,
    transition: StreamsTransition,
    request: StreamsGroupHeartbeatRequest,
    before: object,
    interval_ms: int,
) -> Heard:
    """The group, as the transition has left it, counts one more change of endpoints if it was one.

    Args:
        before: The group of that name before: this one, a classic one in whose place it is, or None.
        interval_ms: How often it is told to send heartbeats.
    """
    member = transition.member
    is_lost = _has_others(group, member, transition.claim)
    is_news = request.member_epoch == 0 or member.assigned != transition.old.assigned
    endpoint_epoch = group.endpoint_epoch + (is_news and member.user_endpoint is not None)
    wants_endpoints = endpoint_epoch != request.endpoint_information_epoch
    if before is group:  # In Apache Kafka, too, the first member of a group does not count,
        group.endpoint_epoch = endpoint_epoch
    elif before is None:  # and is told so, unless there was a classic group.
        endpoint_epoch = group.endpoint_epoch
    active, standby, warmup = None, None, None
    if is_news or is_lost:
        active, standby, warmup = rows_of(message.TaskIds, member.assigned)
        group.untold.discard(member.member_id)
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        status=tuple(_statuses(group, transition)),
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        endpoint_information_epoch=endpoint_epoch,
    )
    return Heard(response, transition.configured.missing, wants_endpoints)


def _has_others(group: StreamsGroup, member: StreamsMember, claim: StreamsTasks | None) -> bool:
    """Whether the member is to be told its tasks again, as it has said that it has others.

    Apache Kafka does not look at the claim: whoever did not get the answer that named new tasks never hears of them.
    """
    is_over = claim is not None and not member.assigned.holds(claim)
    if claim is not None and claim != member.assigned.tasks:
        group.untold.add(member.member_id)
    # What it lacks it hears of with the target that is to come, which may take it away.
    return is_over or (member.member_id in group.untold and group.assignment_epoch >= group.epoch)


def _statuses(group: StreamsGroup, transition: StreamsTransition) -> list[Status]:
    statuses = [*transition.statuses]
    if (problem := transition.configured.problem) is not None:
        statuses.append(Status(status_code=problem.code, status_detail=problem.detail))
    if group.shutdown_by is not None:
        detail = (
            f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the entire"
            " application."
        )
        statuses.append(Status(status_code=StatusCode.SHUTDOWN_APPLICATION, status_detail=detail))
    return statuses
