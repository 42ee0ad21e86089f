"""ListOffsets, API key 2, versions 1-11.

Behaviour
- A timestamp gives the first record at or after it; negative ones are questions of their own, each
  from a certain version on (table below).
- With `read_committed` the latest offset is the last stable one.
- Nothing found is no error: offset −1, timestamp −1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...storage.log import Log
from ..connection import Context
from ..routing import led_partition
from ..topics import Partition

READ_COMMITTED = 1
NO_TIMESTAMP = -1
NO_OFFSET = -1

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6

Answer = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""


def _latest(partition: Partition, up_to: int) -> Answer:
    return NO_TIMESTAMP, up_to, partition.leader_epoch


def _earliest(partition: Partition, _up_to: int) -> Answer:
    log = partition.log
    epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
    return NO_TIMESTAMP, log.log_start_offset, partition.leader_epoch if epoch is None else epoch


def _max_timestamp(partition: Partition, up_to: int) -> Answer:
    return _found(partition.log.max_timestamp_and_offset(), up_to)


def _never_tiered(_partition: Partition, _up_to: int) -> Answer:
    return NO_TIMESTAMP, NO_OFFSET, -1


# Timestamp -> (first version that may ask it, what answers it). KIP-734, KIP-405, KIP-1005, KIP-1023.
QUESTIONS: dict[int, tuple[int, Callable[[Partition, int], Answer]]] = {
    LATEST: (0, _latest),
    EARLIEST: (0, _earliest),
    MAX_TIMESTAMP: (7, _max_timestamp),
    EARLIEST_LOCAL: (8, _earliest),
    LATEST_TIERED: (9, _never_tiered),
    EARLIEST_PENDING_UPLOAD: (11, _never_tiered),
}


async def handle(ctx: Context, request: Request) -> ListOffsetsResponse:
    body: ListOffsetsRequest = request.body
    asked = Counter((topic.name, wanted.partition_index) for topic in body.topics for wanted in topic.partitions)
    committed = body.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(
        throttle_time_ms=0,
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _partition(ctx, topic.name, wanted, request.version, committed, asked)
                    for wanted in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _partition(
    ctx: Context,
    topic: str,
    wanted: ListOffsetsPartition,
    version: int,
    committed: bool,
    asked: Counter[tuple[str, int]],
) -> ListOffsetsPartitionResponse:
    try:
        if asked[topic, wanted.partition_index] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}-{wanted.partition_index} is asked for twice")
        partition = led_partition(ctx, topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        timestamp, offset, epoch = _answer(partition, wanted.timestamp, version, committed)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _answer(partition: Partition, timestamp: int, version: int, committed: bool) -> Answer:
    log: Log = partition.log
    up_to = log.last_stable_offset if committed else log.high_watermark
    if timestamp >= 0:
        return _found(log.offset_for_timestamp(timestamp), up_to)
    since, question = QUESTIONS.get(timestamp, (version + 1, _latest))
    if version < since:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"ListOffsets version {version} has no timestamp {timestamp}")
    return question(partition, up_to)


def _found(found: tuple[int, int, int] | None, up_to: int) -> Answer:
    """A record's timestamp, offset and epoch, unless it is not to be seen yet."""
    return found if found is not None and found[1] < up_to else (NO_TIMESTAMP, NO_OFFSET, -1)
