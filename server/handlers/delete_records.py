"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- Raises the log start offset; −1 means the high watermark. Returns the new low watermark.
- A topic with only the policy compact refuses with POLICY_VIOLATION, one of the broker's own with INVALID_TOPIC_EXCEPTION. A
  topic without a policy loses records only by this request.
- Answered once the offset is on disk, which two syncs take. Apache Kafka writes it within the next minute, and after a kill
  before that the records are back; in a compacted topic also those whose tombstones the cleaner has removed since.
- If the offset cannot be written, the answer is KAFKA_STORAGE_ERROR, but in this process the log starts there: on a full disk
  the deletion of the segments before it may make room. The next checkpoint writes it, and so does a repetition of the request.
  Apache Kafka has answered by then, and takes the data directory offline.
"""

from __future__ import annotations

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
    # An entry for each partition of the request, in its order. Nothing in them has to be freed, which takes long for many.
    low_watermarks: list[int] = []
    codes: list[ErrorCode] = []
    data_dirs: dict[str, list[int]] = {}
    async for topic in time_slice.each(body.topics):
        async for wanted in time_slice.each(topic.partitions):
            try:
                log = _move(ctx, TopicPartition(topic.name, wanted.partition_index), wanted.offset)
            except KafkaError as error:
                low_watermarks.append(-1)
                codes.append(error.code)
            else:
                data_dirs.setdefault(data_dir_of(log), []).append(len(codes))
                low_watermarks.append(log.log_start_offset)
                codes.append(ErrorCode.NONE)
    for data_dir, places in data_dirs.items():
        try:
            await on_disk(Work.CHECKPOINT, data_dir, ctx.services.logs.save_log_starts, data_dir)
        except KafkaError as error:
            for place in places:
                low_watermarks[place], codes[place] = -1, error.code
    time_slice.begin()
    outcomes = zip(low_watermarks, codes, strict=True)
    results = []
    async for topic in time_slice.each(body.topics):
        rows = []
        async for wanted in time_slice.each(topic.partitions):
            low_watermark, code = next(outcomes)
            rows.append(
                DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
                )
            )
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
