"""OffsetFetch, API key 9, versions 1-10.

Behaviour
- One group up to version 7, several from version 8 on, each with its own error; version 1 has no place for that error
  but in every partition.
- What is asked for twice is answered once; of two questions after one group the last one counts. A commit may carry a
  thousand times as many bytes as it takes to ask for it.
- Null topics ask for everything the group has committed. A partition without commit is offset -1 and no error.
- A member of a consumer group must know its epoch (STALE_MEMBER_EPOCH) from version 9 on (KIP-848).
- Topics are meant by id from version 10 on: an offset committed to an earlier topic of the same name is not given,
  and offsets of topics that are gone are left out of "everything".
- `require_stable` gives UNSTABLE_OFFSET_COMMIT where a transaction is about to commit (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from ..connection import Context
from ..groups.commits import Fetched

_FIRST_VERSION_WITH_ERROR = 2
_FIRST_BATCHED_VERSION = 8
_FIRST_VERSION_WITH_IDS = 10


class TopicOffsets(NamedTuple):
    """The answer about one topic, before it is put into either of the two shapes of the response."""

    name: str
    topic_id: bytes
    partitions: Sequence[Fetched]


async def handle(ctx: Context, request: Request) -> OffsetFetchResponse:
    body: OffsetFetchRequest = request.body
    version = request.version
    if version >= _FIRST_BATCHED_VERSION:
        asked_groups = {group.group_id: group for group in body.groups}.values()
        groups = [await _group(ctx, group, version, body.require_stable) for group in asked_groups]
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseGroup(
                    group_id=asked.group_id, error_code=error, topics=tuple(_batched_topic(topic) for topic in topics)
                )
                for asked, (error, topics) in zip(asked_groups, groups, strict=True)
            )
        )
    asked_topics = body.topics
    group = OffsetFetchRequestGroup(
        group_id=body.group_id,
        topics=None
        if asked_topics is None
        else tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in asked_topics
        ),
    )
    error, topics = await _group(ctx, group, version, body.require_stable)
    if error and version < _FIRST_VERSION_WITH_ERROR:
        topics = [
            TopicOffsets(topic.name, topic.topic_id, [Fetched(index, None, error) for index in topic.partition_indexes])
            for topic in group.topics or ()
        ]
    return OffsetFetchResponse(error_code=error, topics=tuple(_topic(topic) for topic in topics))


async def _group(
    ctx: Context, asked: OffsetFetchRequestGroup, version: int, stable: bool
) -> tuple[ErrorCode, list[TopicOffsets]]:
    by_id = version >= _FIRST_VERSION_WITH_IDS
    known = ctx.broker.topics
    found = []
    try:
        groups = ctx.broker.groups
        coordinator = await groups.route(ctx.node, asked.group_id)
        coordinator.check_fetch(asked.group_id, asked.member_id, asked.member_epoch)
        if asked.topics is None:
            for name, partitions in coordinator.fetch_all(asked.group_id, stable=stable).items():
                topic = known.get(name)
                if topic is not None or not by_id:
                    found.append(TopicOffsets(name, topic.id if topic is not None else ZERO_UUID, partitions))
        for (name, topic_id), indexes in _once(asked.topics or ()).items():
            if by_id:
                topic = known.by_id(topic_id)
                if topic is None:
                    unknown = [Fetched(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes]
                    found.append(TopicOffsets("", topic_id, unknown))
                    continue
                name = topic.name
            fetched = coordinator.fetch(asked.group_id, name, topic_id, indexes, stable=stable)
            found.append(TopicOffsets(name, topic_id, fetched))
        await groups.settle(asked.group_id)
    except KafkaError as error:
        return error.code, []
    return ErrorCode.NONE, found


def _once(topics: Iterable[OffsetFetchRequestTopics]) -> dict[tuple[str, bytes], dict[int, None]]:
    """The partitions of each topic (name and id), in the order of the request."""
    found: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in topics:
        found.setdefault((topic.name, topic.topic_id), {}).update(dict.fromkeys(topic.partition_indexes))
    return found


def _topic(topic: TopicOffsets) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetFetchResponsePartition(
                partition_index=partition,
                committed_offset=-1 if committed is None else committed.offset,
                committed_leader_epoch=-1 if committed is None else committed.leader_epoch,
                metadata="" if committed is None else committed.metadata,
                error_code=error,
            )
            for partition, committed, error in topic.partitions
        ),
    )


def _batched_topic(topic: TopicOffsets) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            OffsetFetchResponsePartitions(
                partition_index=partition,
                committed_offset=-1 if committed is None else committed.offset,
                committed_leader_epoch=-1 if committed is None else committed.leader_epoch,
                metadata="" if committed is None else committed.metadata,
                error_code=error,
            )
            for partition, committed, error in topic.partitions
        ),
    )
