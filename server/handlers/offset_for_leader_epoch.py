"""OffsetForLeaderEpoch, API key 23, versions 2-4.

Behaviour
- Returns the largest epoch not above the requested one, and its end offset (KIP-101, KIP-320);
  the present epoch ends at the log end. −1, −1 if the epoch is unknown.
"""

from __future__ import annotations

from functools import partial

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .routing import led_partition


async def handle(ctx: Context, request: Request) -> OffsetForLeaderEpochResponse:
    body: OffsetForLeaderEpochRequest = request.body
    time_slice = TimeSlice()
    is_broker = ctx.may(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, is_attempt=False)
    topics = []
    async for topic in time_slice.each(body.topics):
        if is_broker or ctx.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic):
            partitions = await time_slice.map(partial(_partition, ctx, topic.topic), topic.partitions)
        else:
            partitions = await time_slice.map(_refused, topic.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions)))
    return OffsetForLeaderEpochResponse(topics=tuple(topics))


def _refused(wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    return EpochEndOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=wanted.partition)


def _partition(ctx: Context, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = led_partition(ctx, topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )
