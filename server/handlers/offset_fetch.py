"""OffsetFetch, API key 9, versions 1-10.

Behaviour
- One group up to version 7, several from version 8 on, each with its own error; version 1 has a place for that error only in
  the partitions.
- A partition that is named twice is returned once; if a group is named twice, its last row counts. A commit may have a thousand
  times as many bytes as its request here.
- Null topics mean all offsets that the group has committed. A partition without commit is offset -1 and no error.
- A member of a consumer group must know its epoch (STALE_MEMBER_EPOCH) from version 9 on (KIP-848).
- Topics are identified by id from version 10 on: an offset committed to an earlier topic of the same name is not returned, and
  offsets of deleted topics are left out of "all".
- Topics that are unknown, or that the client may not describe, come after all others, as in Apache Kafka.
- `require_stable` returns UNSTABLE_OFFSET_COMMIT while a transaction has a pending commit (KIP-447).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ...protocol.wire import ZERO_UUID
from ..groups.offset_commits import Fetched
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check

_FIRST_VERSION_WITH_ERROR = 2
_FIRST_BATCHED_VERSION = 8
_FIRST_VERSION_WITH_IDS = 10

Told = TypeVar("Told", OffsetFetchResponseTopic, OffsetFetchResponseTopics)
Row = TypeVar("Row", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


class TopicOffsets(NamedTuple):
    """Offsets of one topic, before they are put into either of the two shapes of the response."""

    name: str
    topic_id: bytes
    partitions: Sequence[Fetched]


async def handle(ctx: Context, request: Request) -> OffsetFetchResponse:
    body: OffsetFetchRequest = request.body
    version, time_slice = request.version, TimeSlice()
    if version >= _FIRST_BATCHED_VERSION:
        asked_groups: dict[str, OffsetFetchRequestGroup] = {}
        async for group in time_slice.each(body.groups):
            asked_groups[group.group_id] = group
        groups = []
        async for asked in time_slice.each(asked_groups.values()):
            error, topics = await _group(ctx, asked, version, body.require_stable, time_slice)
            batched = await _convert_topics(topics, _batched_topic, time_slice)
            groups.append(OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error, topics=batched))
        return OffsetFetchResponse(groups=tuple(groups))
    wanted = await time_slice.map(
        lambda topic: OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes),
        body.topics or (),
    )
    group = OffsetFetchRequestGroup(group_id=body.group_id, topics=None if body.topics is None else tuple(wanted))
    error, topics = await _group(ctx, group, version, body.require_stable, time_slice)
    if error and version < _FIRST_VERSION_WITH_ERROR:
        code = error
        topics = []
        async for topic in time_slice.each(group.topics or ()):
            told = await time_slice.map(lambda index: Fetched(index, None, code), topic.partition_indexes)
            topics.append(TopicOffsets(topic.name, topic.topic_id, told))
    told_topics = await _convert_topics(topics, _topic, time_slice)
    del group
    await time_slice.empty(wanted)
    return OffsetFetchResponse(error_code=error, topics=told_topics)


async def _convert_topics(
    topics: list[TopicOffsets], told: Callable[[TopicOffsets, TimeSlice], Awaitable[Told]], time_slice: TimeSlice
) -> tuple[Told, ...]:
    """Convert all topics with `told`, which lets other tasks run only within topics with many partitions. Empties `topics`."""
    found = []
    async for topic in time_slice.each(topics):
        found.append(await told(topic, time_slice))
    await time_slice.empty(topics)
    return tuple(found)


async def _group(
    ctx: Context, asked: OffsetFetchRequestGroup, version: int, stable: bool, time_slice: TimeSlice
) -> tuple[ErrorCode, list[TopicOffsets]]:
    by_id = version >= _FIRST_VERSION_WITH_IDS
    known = ctx.services.topics
    found: list[TopicOffsets] = []
    refused: list[TopicOffsets] = []
    try:
        check(ctx, AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id)
        groups = ctx.services.coordinators.groups
        shard = await groups.route(ctx.node, asked.group_id)
        coordinator = groups.coordinator
        coordinator.check_fetch(shard, asked.group_id, asked.member_id, asked.member_epoch)
        positions = coordinator.positions(shard, asked.group_id, stable=stable)
        if asked.topics is None:
            async for name, partitions in time_slice.each(
                (await run_cooperatively(coordinator.fetch_all(positions), time_slice)).items()
            ):
                topic = known.get(name)
                if (topic is not None or not by_id) and ctx.may(
                    AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_attempt=False
                ):
                    found.append(TopicOffsets(name, topic.id if topic is not None else ZERO_UUID, partitions))
        places = await _distinct_partitions(asked.topics or (), time_slice)
        async for (name, topic_id), indexes in time_slice.each(places.items()):
            if by_id:
                topic = known.by_id(topic_id)
                if topic is None:
                    unknown = await time_slice.map(
                        lambda index: Fetched(index, None, ErrorCode.UNKNOWN_TOPIC_ID), indexes
                    )
                    refused.append(TopicOffsets("", topic_id, unknown))
                    continue
                name = topic.name
            if not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                hidden = await time_slice.map(
                    lambda index: Fetched(index, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED), indexes
                )
                refused.append(TopicOffsets(name, topic_id, hidden))
                continue
            fetched = await run_cooperatively(coordinator.fetch(positions, name, topic_id, indexes), time_slice)
            found.append(TopicOffsets(name, topic_id, fetched))
        await time_slice.empty(places)
        await groups.settle(shard)
    except KafkaError as error:
        return error.code, []
    async for row in time_slice.each(refused):
        found.append(row)
    await time_slice.empty(refused)
    return ErrorCode.NONE, found


async def _distinct_partitions(
    topics: Iterable[OffsetFetchRequestTopics], time_slice: TimeSlice
) -> dict[tuple[str, bytes], dict[int, None]]:
    """Return the distinct partitions of each topic (name and id), in the order of the request."""
    found: dict[tuple[str, bytes], dict[int, None]] = {}
    async for topic in time_slice.each(topics):
        found.setdefault((topic.name, topic.topic_id), {}).update(await time_slice.distinct(topic.partition_indexes))
    return found


async def _topic(topic: TopicOffsets, time_slice: TimeSlice) -> OffsetFetchResponseTopic:
    rows = await time_slice.map(partial(_row, OffsetFetchResponsePartition), topic.partitions)
    return OffsetFetchResponseTopic(name=topic.name, partitions=tuple(rows))


async def _batched_topic(topic: TopicOffsets, time_slice: TimeSlice) -> OffsetFetchResponseTopics:
    rows = await time_slice.map(partial(_row, OffsetFetchResponsePartitions), topic.partitions)
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=tuple(rows))


def _row(shape: type[Row], one: Fetched) -> Row:
    return shape(
        partition_index=one.partition,
        committed_offset=-1 if one.committed is None else one.committed.offset,
        committed_leader_epoch=-1 if one.committed is None else one.committed.leader_epoch,
        metadata="" if one.committed is None else one.committed.metadata,
        error_code=one.error,
    )
