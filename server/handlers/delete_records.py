"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- Moves the log start offset up; −1 means the high watermark. Answers the new low watermark.
- A topic that is compacted and nothing else refuses with POLICY_VIOLATION, one of the broker's own with
  INVALID_TOPIC_EXCEPTION. With neither policy, what is deleted here is all that ever is.
- Answered once the offset is on disk, which two syncs take. Apache Kafka writes it within the next minute, and a kill before
  that brings the records back; in a compacted topic also those whose tombstones the cleaner then takes for done with.
- If the disk refuses to take note, the answer is KAFKA_STORAGE_ERROR, and the log starts there all the same, as far as this
  process knows: on a full disk the deletion of the segments before it may be what makes room. The next checkpoint writes it,
  and so does a repetition of the request. Apache Kafka has answered by then, and takes the data directory offline.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...protocol.wire import as_array
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..runtime.threads import Work, on_disk
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check
from .routing import led_partition

HIGH_WATERMARK = -1


async def handle(ctx: Context, request: Request) -> DeleteRecordsResponse:
    body: DeleteRecordsRequest = request.body
    time_slice = TimeSlice()
    moved: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    data_dirs: dict[str, list[TopicPartition]] = {}
    async for topic in time_slice.each(body.topics):
        async for wanted in time_slice.each(topic.partitions):
            each = TopicPartition(topic.name, wanted.partition_index)
            try:
                log = _move(ctx, each, wanted.offset)
            except KafkaError as error:
                refused[each] = error.code
            else:
                moved[each] = log.log_start_offset
                data_dirs.setdefault(data_dir_of(log), []).append(each)
    for data_dir, partitions in data_dirs.items():
        try:
            await on_disk(Work.CHECKPOINT, data_dir, ctx.services.logs.save_log_starts, data_dir)
        except KafkaError as error:
            refused |= dict.fromkeys(partitions, error.code)
    time_slice.begin()
    results = []
    async for topic in time_slice.each(body.topics):
        rows = []
        async for wanted in time_slice.each(topic.partitions):
            rows.append(_result(TopicPartition(topic.name, wanted.partition_index), moved, refused))
        results.append(DeleteRecordsTopicResult(name=topic.name, partitions=as_array(rows)))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=as_array(results))


def _move(ctx: Context, topic_partition: TopicPartition, wanted: int) -> Log:
    """Move one log start offset, in memory; returns the log."""
    name = topic_partition.topic
    check(ctx, AclOperation.DELETE, ResourceType.TOPIC, name)
    partition = led_partition(ctx, name, topic_partition.partition)
    if partition.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot delete records of internal topic {name}")
    log = partition.log
    if log.config.is_compact and not log.config.is_delete:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, f"{name} is compacted, but its cleanup.policy does not include delete"
        )
    offset = log.high_watermark if wanted == HIGH_WATERMARK else wanted
    if not 0 <= offset <= log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {wanted} is outside 0..{log.high_watermark} of {name}")
    log.advance_log_start(offset)
    ctx.services.waits.changed(topic_partition)
    return log


def _result(
    topic_partition: TopicPartition, moved: Mapping[TopicPartition, int], refused: Mapping[TopicPartition, ErrorCode]
) -> DeleteRecordsPartitionResult:
    code = refused.get(topic_partition, ErrorCode.NONE)
    return DeleteRecordsPartitionResult(
        partition_index=topic_partition.partition,
        low_watermark=moved[topic_partition] if code is ErrorCode.NONE else -1,
        error_code=code,
    )
