"""OffsetCommit, API key 8, versions 2-10.

Behaviour
- Topics are named up to version 9 and identified by id from version 10 on; either way the id is stored with the offset.
  An unknown topic or partition has its own error, the others are committed.
- An error of the group (unknown member, old generation, rebalance in progress) is the error of every other partition.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..coordination.jobs import Steps
from ..groups.offset_table import Place
from ..groups.shard import GroupShard
from ..network.dispatcher import finished
from ..runtime.time_slices import begun
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .committing import Found, TopicAtRequest, found_of, prepared_commit, rows_of
from .coordinating import CoordinatorCall

_FIRST_VERSION_WITH_IDS = 10


def handle(ctx: Context, request: Request) -> Any:
    body: OffsetCommitRequest = request.body
    by_id, known = request.version >= _FIRST_VERSION_WITH_IDS, ctx.services.topics
    group_error = ErrorCode.NONE
    if not ctx.may(AclOperation.READ, ResourceType.GROUP, body.group_id):
        group_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    found = begun(
        found_of(ctx, body.topics, lambda asked: known.by_id(asked.topic_id) if by_id else known.get(asked.name)),
        ctx.time_slice,
    )
    if isinstance(found, Found):
        return _commit(ctx, request, found, group_error)
    return _commit_later(ctx, request, found, group_error)


async def _commit_later(
    ctx: Context, request: Request, finding: Coroutine[Any, Any, Found], group_error: ErrorCode
) -> Any:
    return await finished(_commit(ctx, request, await finding, group_error))


def _commit(ctx: Context, request: Request, found: Found, group_error: ErrorCode) -> Any:
    """Commit, and return the response, or a coroutine that returns it."""

    def respond(group_error: ErrorCode, refused: dict[Place, ErrorCode]) -> Any:
        return begun(_response(request, found, group_error, refused), ctx.time_slice)

    if group_error or not found.commits:
        return respond(group_error, {})
    groups = ctx.services.coordinators.groups
    return CoordinatorCall(
        ctx,
        groups,
        request.body.group_id,
        partial(_write, ctx, request, found),
        lambda error: respond(error.code, {}),
        after=partial(respond, ErrorCode.NONE),
    ).run()


def _write(ctx: Context, request: Request, found: Found, shard: GroupShard) -> Steps[dict[Place, ErrorCode]]:
    """Commit the offsets; return the errors of the partitions that are refused."""
    prepared = yield from prepared_commit(ctx, shard, request.body, found.commits)
    coordinator, now_ms = ctx.services.coordinators.groups.coordinator, ctx.services.clock.now_ms()
    return coordinator.commit(shard, request.body, request.version, prepared, now_ms)


def _response(
    request: Request, found: Found, group_error: ErrorCode, refused: dict[Place, ErrorCode]
) -> Steps[OffsetCommitResponse]:
    by_id = request.version >= _FIRST_VERSION_WITH_IDS

    def error_of(known_as: TopicAtRequest, index: int) -> ErrorCode:
        if group_error is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return group_error
        if by_id and known_as.topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return known_as.error_of(index, group_error, refused)

    rows = yield from rows_of(
        request.body.topics, found, error_of, OffsetCommitResponseTopic, OffsetCommitResponsePartition
    )
    return OffsetCommitResponse(topics=rows)
