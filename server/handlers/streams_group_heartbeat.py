"""StreamsGroupHeartbeat, API key 88, versions 0-1.

Behaviour
- A member of a streams group joins (epoch 0), stays, or leaves (-1); the rules are in `groups.streams.protocol`.
- The topology of a joining member must have valid topic names, none of the broker's own, and the client must be allowed to
  describe all of them.
- Missing internal topics are created before the response is sent, if the client may create them; members get them with the next
  heartbeat. If creation fails, the detail of the status has the reason.
- The response may be held while the group is quiet, or until others give up what a joining member will get (`holding`).
- Served while the feature `streams.version` is 1 and `group.coordinator.rebalance.protocols` names "streams"; else
  UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from types import CoroutineType
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)
from ..cluster.topic_plans import PARTITIONS_MAX, TopicPlan, check_name
from ..coordination.jobs import Job, Steps
from ..groups.classic.protocol import Caller
from ..groups.coordinator import GroupCoordinator
from ..groups.service import GroupService
from ..groups.shard import GroupShard
from ..groups.streams.answering import HeartbeatResult
from ..groups.streams.configured import InternalTopic, StatusCode
from ..groups.streams.member import check_size
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .coordinating import NAMES_AT_ONCE, CoordinatorCall, check_topics
from .holding import held, held_join, held_later, is_joining
from .permissions import check_without_words

_ERRORS_SHOWN = 3
CLAIMS = ("active_tasks", "standby_tasks", "warmup_tasks")
_NAMES_SHOWN = 100


def handle(ctx: Context, request: Request) -> Any:
    body: StreamsGroupHeartbeatRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        groups.check_streams_protocol()
        check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    except KafkaError as error:
        return _refused(error)
    caller = Caller(request.client_id or "", f"/{ctx.client.client_host}", request.version, None)
    before = None if body.topology is None else partial(_check_topics, ctx, body.topology)
    work = partial(_heartbeat, groups.coordinator, body, caller, ctx.services.clock.now_ms)
    answer = CoordinatorCall(ctx, groups, body.group_id, work, _refused, before, partial(_make_response, ctx)).run()
    if groups.held is None:
        return answer
    if isinstance(answer, CoroutineType):
        return held_later(answer, partial(_held, ctx, request, groups))
    return _held(ctx, request, groups, answer)


def _held(ctx: Context, request: Request, groups: GroupService, answer: StreamsGroupHeartbeatResponse) -> Any:
    """Return the answer as it is, or one that is held: of a member that joins and waits for others, or of a quiet group."""
    body: StreamsGroupHeartbeatRequest = request.body
    if (body.member_epoch == 0 or is_joining(ctx, request)) and not answer.error_code:
        if answer.active_tasks is None:  # nothing new since the wait began
            answer = replace(answer, active_tasks=(), standby_tasks=(), warmup_tasks=())
        has_part = any((answer.active_tasks, answer.standby_tasks, answer.warmup_tasks, answer.status))
        return held_join(ctx, request, answer, groups, has_part=has_part, topology=None)
    has_no_news = (
        answer.member_epoch == body.member_epoch
        and answer.active_tasks is None
        and answer.partitions_by_user_endpoint is None
        and not answer.status
    )
    return held(ctx, request, answer, groups, has_news=not has_no_news, claims=CLAIMS)


def _heartbeat(
    coordinator: GroupCoordinator,
    body: StreamsGroupHeartbeatRequest,
    caller: Caller,
    now_ms: Callable[[], int],
    shard: GroupShard,
) -> Steps[HeartbeatResult]:
    heard = yield from coordinator.streams_heartbeat(shard, body, caller, now_ms)
    if not heard.wants_endpoints:
        return heard
    rows = yield from coordinator.streams_endpoints(shard, body.group_id, heard.response.member_id)
    return heard._replace(response=replace(heard.response, partitions_by_user_endpoint=rows))


def _refused(error: KafkaError) -> StreamsGroupHeartbeatResponse:
    # Apache Kafka sends no message with UNSUPPORTED_VERSION.
    message = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message or None
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=message)


def _make_response(ctx: Context, heard: HeartbeatResult) -> Any:
    return _with_topics(ctx, heard, heard.response) if heard.missing else heard.response


def _check_topics(ctx: Context, topology: Topology) -> Job:
    """Raise STREAMS_INVALID_TOPOLOGY or TOPIC_AUTHORIZATION_FAILED if one of its topics cannot be used."""
    check_size(topology)
    names, name_of = set[str](), attrgetter("name")
    for one in topology.subtopologies:
        names.update(one.source_topics, one.repartition_sink_topics)
        names.update(map(name_of, one.repartition_source_topics), map(name_of, one.state_changelog_topics))
    if used := sorted(names & INTERNAL_TOPICS):
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {','.join(used)} in a Kafka Streams topology is prohibited.",
        )
    invalid = []
    for name in names:
        try:
            check_name(name)
        except KafkaError:
            invalid.append(name)
        if len(names) > NAMES_AT_ONCE:
            yield
    if invalid:
        shown = ",".join(sorted(invalid)[:_NAMES_SHOWN])
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {shown} are not valid topic names.")
    if ctx.services.authorizer is not None:
        yield from check_topics(ctx, sorted(names))


async def _with_topics(
    ctx: Context, heard: HeartbeatResult, response: StreamsGroupHeartbeatResponse
) -> StreamsGroupHeartbeatResponse:
    """Create the missing internal topics, and add the reason to the response if that fails."""
    time_slice, refused, failed = TimeSlice(), list[str](), list[str]()
    if not ctx.may(AclOperation.CREATE, ResourceType.CLUSTER, is_attempt=False):
        async for name in time_slice.each(heard.missing):
            if not ctx.may(AclOperation.CREATE, ResourceType.TOPIC, name):
                refused.append(name)
    if refused:
        return _detailed(response, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
    partitions = sum(topic.partitions for topic in heard.missing.values())
    if partitions > PARTITIONS_MAX:
        return _detailed(response, f"Creation failed: too many partitions ({partitions}, limit {PARTITIONS_MAX}).")
    refusals: list[tuple[str, KafkaError]] = []
    plans: list[TopicPlan] = []
    async for topic in time_slice.each(heard.missing.values()):
        try:
            plans.append(_plan(ctx, topic))
        except KafkaError as error:
            refusals.append((topic.name, error))
    try:
        made = await ctx.services.topic_admin.create_all(plans)
    except KafkaError as error:
        made = [error] * len(plans)
    refusals += [(plan.name, each) for plan, each in zip(plans, made, strict=True) if isinstance(each, KafkaError)]
    failed += [
        f"{name} ({error.message})"
        for name, error in refusals
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS  # Another member was faster.
    ]
    if not failed:
        return response
    more = len(failed) - _ERRORS_SHOWN
    shown = ", ".join(failed[:_ERRORS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return _detailed(response, f"Creation failed: {shown}.")


def _plan(ctx: Context, topic: InternalTopic) -> TopicPlan:
    return ctx.services.topic_admin.planner.plan(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or -1,
        configs=topic.configs,
    )


def _detailed(response: StreamsGroupHeartbeatResponse, words: str) -> StreamsGroupHeartbeatResponse:
    statuses = tuple(
        replace(one, status_detail=f"{one.status_detail}; {words}")
        if one.status_code == StatusCode.MISSING_INTERNAL_TOPICS
        else one
        for one in response.status or ()
    )
    return replace(response, status=statuses)
