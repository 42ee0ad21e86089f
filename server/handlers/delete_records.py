"""DeleteRecords, API key 21, versions 0-2.

Behaviour
- Moves the log start offset up; −1 means the high watermark. Answers the new low watermark.
- A topic that is compacted and nothing else refuses with POLICY_VIOLATION, one of the broker's own with
  INVALID_TOPIC_EXCEPTION. With neither policy, what is deleted here is all that ever is.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ..connection import Context
from ..routing import led_partition

HIGH_WATERMARK = -1


async def handle(ctx: Context, request: Request) -> DeleteRecordsResponse:
    body: DeleteRecordsRequest = request.body
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(_partition(ctx, topic.name, wanted) for wanted in topic.partitions),
            )
            for topic in body.topics
        ),
    )


def _partition(ctx: Context, name: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        partition = led_partition(ctx, name, wanted.partition_index)
        if partition.topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot delete records of internal topic {name}")
        log = partition.log
        if log.config.is_compact and not log.config.is_delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{name} is compacted and its cleanup.policy does not include delete"
            )
        offset = log.high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {wanted.offset} is outside 0..{log.high_watermark} of {name}"
            )
        log.advance_log_start(offset)
        ctx.broker.waits.changed(partition.topic_partition)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=log.log_start_offset, error_code=ErrorCode.NONE
    )
