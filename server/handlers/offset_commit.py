"""OffsetCommit, API key 8, versions 2-10.

Behaviour
- Topics are named up to version 9 and identified by id from version 10 on; either way the id is stored with the offset.
  An unknown topic or partition has its own error, the others are committed.
- An error of the group (unknown member, old generation, rebalance in progress) is the error of every other partition.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..groups.offset_commits import TopicCommit
from ..groups.offset_table import Place
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .committing import found_of, prepare_cooperatively

_FIRST_VERSION_WITH_IDS = 10


async def handle(ctx: Context, request: Request) -> OffsetCommitResponse:
    body: OffsetCommitRequest = request.body
    by_id = request.version >= _FIRST_VERSION_WITH_IDS
    known, time_slice = ctx.services.topics, ctx.time_slice
    may_commit = ctx.may(AclOperation.READ, ResourceType.GROUP, body.group_id)
    found, commits = await found_of(
        ctx, body.topics, lambda asked: known.by_id(asked.topic_id) if by_id else known.get(asked.name), time_slice
    )
    group_error: ErrorCode = ErrorCode.NONE
    refused: dict[Place, ErrorCode] = {}
    if not may_commit:
        group_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif commits:
        group_error, refused = await _commit(ctx, body, request.version, commits)

    answers: list[OffsetCommitResponseTopic] = []
    async for known_as, asked in time_slice.each(zip(found, body.topics, strict=True)):
        answers.append(
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=tuple(
                    await time_slice.map(
                        lambda one, known_as=known_as: OffsetCommitResponsePartition(  # type: ignore[misc]
                            partition_index=one.partition_index,
                            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                            if not may_commit
                            else ErrorCode.UNKNOWN_TOPIC_ID
                            if by_id and known_as.topic is None
                            else known_as.error_of(one.partition_index, group_error, refused),
                        ),
                        asked.partitions,
                    )
                ),
            )
        )
    await time_slice.empty(found, commits)
    return OffsetCommitResponse(topics=tuple(answers))


async def _commit(
    ctx: Context, body: OffsetCommitRequest, version: int, commits: list[TopicCommit]
) -> tuple[ErrorCode, dict[Place, ErrorCode]]:
    try:
        groups = ctx.services.coordinators.groups
        shard = await groups.route(ctx.node, body.group_id)
        prepared = await prepare_cooperatively(ctx, shard, body, commits)
        refused = groups.coordinator.commit(shard, body, version, prepared, ctx.services.clock.now_ms())
        await groups.settle(shard)
        return ErrorCode.NONE, refused
    except KafkaError as error:
        return error.code, {}
