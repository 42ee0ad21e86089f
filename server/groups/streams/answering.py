"""Answers to heartbeats of members of streams groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
from .targets import RACK_TAGS
from .transition import StreamsTransition

_TAGS_VERSION = 1
"""Clients of this version and later know the status MISSING_CLIENT_TAGS."""


class AnswerOptions(NamedTuple):
    """
    Attributes:
        shutdown_by: Id of the member that requested the end of the whole application.
        version: Version of the request.
        interval_ms: Interval in which the member must send heartbeats.
        of_group: The group's options (`GroupSettings.of_group`).
    """

    shutdown_by: str | None
    version: int
    interval_ms: int
    of_group: Mapping[str, Any]


class HeartbeatResult(NamedTuple):
    """
    Attributes:
        missing: Internal topics that must be created for the group, by name.
        wants_endpoints: Whether the answer must contain the result of `describing.endpoints`.
    """

    response: StreamsGroupHeartbeatResponse
    missing: Mapping[str, InternalTopic] = {}
    wants_endpoints: bool = False


def answered(
    group: StreamsGroup,
    transition: StreamsTransition,
    request: StreamsGroupHeartbeatRequest,
    before: object,
    options: AnswerOptions,
) -> HeartbeatResult:
    """Return the answer after a transition. If the transition changed endpoints, count that in the group.

    Args:
        before: The earlier group of that name: this one, a classic one that it replaced, or None.
    """
    member = transition.member
    has_new_tasks = member.assigned != transition.old.assigned
    has_new_endpoint = member.user_endpoint != transition.old.user_endpoint
    is_counted = has_new_endpoint or (has_new_tasks and member.user_endpoint is not None)
    endpoint_epoch = group.endpoint_epoch + is_counted
    wants_endpoints = endpoint_epoch != request.endpoint_information_epoch
    if before is group:  # In Apache Kafka the first member of a group does not count either,
        group.endpoint_epoch = endpoint_epoch
        if is_counted:
            group.bell.ring()
    elif before is None:  # and gets the old epoch, unless it replaced a classic group.
        endpoint_epoch = group.endpoint_epoch
    active, standby, warmup = None, None, None
    if request.member_epoch == 0 or has_new_tasks or _has_others(group, member, transition.claim):
        active, standby, warmup = rows_of(message.TaskIds, member.assigned)
        group.untold.discard(member.member_id)
    response = StreamsGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=options.interval_ms,
        task_offset_interval_ms=options.of_group["streams.task.offset.interval.ms"],
        acceptable_recovery_lag=options.of_group["streams.acceptable.recovery.lag"],
        status=tuple(_statuses(group, transition, options)),
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        endpoint_information_epoch=endpoint_epoch,
    )
    return HeartbeatResult(response, transition.configured.missing, wants_endpoints)


def _has_others(group: StreamsGroup, member: StreamsMember, claim: StreamsTasks | None) -> bool:
    """Whether the answer must contain the member's tasks, as the member has reported other tasks.

    Apache Kafka does not check the claim: a member that missed the answer with new tasks never gets them there.
    """
    is_over = claim is not None and not member.assigned.holds(claim)
    if claim is not None and claim != member.assigned.tasks:
        group.untold.add(member.member_id)
    # Tasks that the member lacks are in the answer after the next target, which may take them away.
    return is_over or (member.member_id in group.untold and group.assignment_epoch >= group.epoch)


def missing_tags(group: StreamsGroup, member: StreamsMember, version: int) -> list[str]:
    """Return the tags for rack-aware standby tasks that the member lacks, if its client knows the status for that."""
    tags = group.assignment_configs.get(RACK_TAGS)
    if version < _TAGS_VERSION or not tags:
        return []
    return [tag for tag in tags.split(",") if tag not in member.client_tags]


def _statuses(group: StreamsGroup, transition: StreamsTransition, options: AnswerOptions) -> list[Status]:
    statuses = [*transition.statuses]
    if (problem := transition.configured.problem) is not None:
        statuses.append(Status(status_code=problem.code, status_detail=problem.detail))
    if options.shutdown_by is not None:
        detail = (
            f"Streams group member {options.shutdown_by} encountered a fatal error and requested a shutdown for the entire"
            " application."
        )
        statuses.append(Status(status_code=StatusCode.SHUTDOWN_APPLICATION, status_detail=detail))
    if missing := missing_tags(group, transition.member, options.version):
        detail = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via"
            " 'client.tag.<tagKey>' in your Streams config."
        )
        statuses.append(Status(status_code=StatusCode.MISSING_CLIENT_TAGS, status_detail=detail))
    return statuses
