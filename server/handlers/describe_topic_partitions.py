"""DescribeTopicPartitions, API key 75, version 0 (KIP-966).

Behaviour
- Topics in order of name, all of them when none is named, at most `response_partition_limit`
  partitions in one response (and never more than `max.request.partition.size.limit`); the cursor says where the next request
  continues.
- Topics that the client may not describe are left out of "all"; if they are named, they come after the others.
- Without a leader the ISR is empty, and its last members are eligible leaders; also if the data directory of all replicas has
  failed.
- A cursor with a negative partition, or on a topic that is not among the named ones, is INVALID_REQUEST.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from operator import attrgetter

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...protocol.wire import ZERO_UUID
from ..cluster.topic_plans import check_name
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..partitions.topics import NO_LEADER, Partition
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .authorized_operations import topic_operations
from .routing import eligible_and_last_known, leader_and_offline


async def handle(ctx: Context, request: Request) -> DescribeTopicPartitionsResponse:
    body: DescribeTopicPartitionsRequest = request.body
    services = ctx.services
    time_slice = TimeSlice()
    named = await time_slice.distinct(await time_slice.map(attrgetter("name"), body.topics))
    names = await time_slice.sorted(named or [topic.name for topic in services.topics])
    first_partition = 0
    if body.cursor is not None:
        if body.cursor.partition_index < 0 or (named and body.cursor.topic_name not in named):
            invalid = partial(_missing, ctx, code=ErrorCode.INVALID_REQUEST)
            return _answer(await time_slice.map(invalid, await time_slice.map(attrgetter("name"), body.topics)), None)
        at = bisect_left(names, body.cursor.topic_name)
        if at < len(names) and names[at] == body.cursor.topic_name:
            first_partition = body.cursor.partition_index
        names = names[at:]
    left = max(1, min(body.response_partition_limit, services.config.current.max_request_partition_size_limit))
    found: list[DescribeTopicPartitionsResponseTopic] = []
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    async for name in time_slice.each(names):
        if not ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, name, is_attempt=bool(named)):
            if named:
                refused.append(_refused(name))
            continue
        if not left:
            return _answer([*found, *refused], Cursor(topic_name=name, partition_index=0))
        start, first_partition = first_partition, 0
        topic = services.topics.get(name)
        if topic is None:
            try:
                check_name(name)
                found.append(_missing(ctx, name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            except KafkaError as error:
                found.append(_missing(ctx, name, error.code))
            continue
        shown = topic.partitions[start : start + left]
        live, has_elr = services.cluster.live_node_ids(), services.cluster.has_eligible_replicas()
        found.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.NONE,
                name=name,
                topic_id=topic.id,
                is_internal=topic.is_internal,
                partitions=tuple(await time_slice.map(partial(_partition, live=live, has_elr=has_elr), shown)),
                topic_authorized_operations=topic_operations(ctx, topic.name),
            )
        )
        left -= len(shown)
        if start + len(shown) < len(topic.partitions):
            return _answer([*found, *refused], Cursor(topic_name=name, partition_index=start + len(shown)))
    return _answer([*found, *refused], None)


def _answer(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=tuple(topics), next_cursor=cursor)


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _missing(ctx: Context, name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=topic_operations(ctx, name),
    )


def _partition(partition: Partition, live: list[int], *, has_elr: bool) -> DescribeTopicPartitionsResponsePartition:
    leader, offline = leader_and_offline(partition, live)
    isr, elr, last_known = partition.isr, partition.elr if has_elr else (), tuple[int, ...]()
    if has_elr and leader == NO_LEADER:
        isr, (elr, last_known) = (), eligible_and_last_known(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=isr,
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
        offline_replicas=offline,
    )
