"""OffsetCommit, API key 8, versions 2-10.

Behaviour
- Topics are named up to version 9 and meant by id from version 10 on; either way the id is kept with the offset.
  An unknown topic or partition has its own error, the others are committed.
- What the group says (unknown member, old generation, rebalance in progress) is the error of every other partition.
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
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..groups.coordinator import GroupCoordinator
from ..groups.offsets.commits import Prepared, TopicCommit
from ..groups.offsets.offsets import Place
from ..partitions.topics import Topic
from ..runtime.turns import in_turns
from ..services.context import Context

_FIRST_VERSION_WITH_IDS = 10


async def handle(ctx: Context, request: Request) -> OffsetCommitResponse:
    body: OffsetCommitRequest = request.body
    by_id = request.version >= _FIRST_VERSION_WITH_IDS
    known, turn = ctx.services.topics, ctx.turn
    topics: list[tuple[Topic | None, int]] = []
    commits = []
    for asked in body.topics:
        if topics and turn.is_over():
            await turn.next()
        topic = known.by_id(asked.topic_id) if by_id else known.get(asked.name)
        # It may get more before the answer, which were not committed.
        partition_count = 0 if topic is None else len(topic.partitions)
        topics.append((topic, partition_count))
        if topic is not None:
            partitions = []
            for at, one in enumerate(asked.partitions):
                if at and turn.is_over():
                    await turn.next()
                if 0 <= one.partition_index < partition_count:
                    partitions.append(one)
            if partitions:
                commits.append(TopicCommit(topic.name, topic.id, partitions))
    group_error, refused = await _commit(ctx, body, request.version, commits) if commits else (ErrorCode.NONE, {})

    def error_of(topic: Topic | None, partition_count: int, index: int) -> ErrorCode:
        if topic is None and by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None or not 0 <= index < partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return group_error or refused.get((topic.name, index), ErrorCode.NONE)

    answers: list[OffsetCommitResponseTopic] = []
    for known_as, asked in zip(topics, body.topics, strict=True):
        if answers and turn.is_over():
            await turn.next()
        answers.append(
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=tuple(
                    await turn.map(
                        lambda one, known_as=known_as: OffsetCommitResponsePartition(  # type: ignore[misc]
                            partition_index=one.partition_index,
                            error_code=error_of(known_as[0], known_as[1], one.partition_index),
                        ),
                        asked.partitions,
                    )
                ),
            )
        )
    return OffsetCommitResponse(topics=tuple(answers))


async def _commit(
    ctx: Context, body: OffsetCommitRequest, version: int, commits: list[TopicCommit]
) -> tuple[ErrorCode, dict[Place, ErrorCode]]:
    try:
        groups = ctx.services.coordinators.groups
        coordinator = await groups.route(ctx.node, body.group_id)
        prepared = await prepared_in_turns(ctx, coordinator, body, commits)
        refused = coordinator.commit(body, version, prepared, ctx.services.clock.now_ms())
        await groups.settle(body.group_id)
        return ErrorCode.NONE, refused
    except KafkaError as error:
        return error.code, {}


async def prepared_in_turns(
    ctx: Context,
    coordinator: GroupCoordinator,
    body: OffsetCommitRequest | TxnOffsetCommitRequest,
    commits: list[TopicCommit],
) -> Prepared:
    """The commit, ready to be written in the turn in which this returns: each topic is there then."""
    while True:
        prepared = await in_turns(coordinator.prepare(body, commits, ctx.services.clock.now_ms()), ctx.turn)
        if coordinator.is_current(prepared):
            return prepared
