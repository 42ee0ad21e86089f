"""WriteTxnMarkers, API key 27, versions 1-2.

Behaviour
- Each marker is written to each of its partitions on its own, and refused there on its own.
- Answers by producer: what several markers of one producer say of one partition, the last one tells.
- Our own coordinator writes its markers without this request. It is there for administrators: `abortTransaction` ends a
  transaction that no coordinator knows any more (KIP-664).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...storage.logs.log import Log
from ..runtime.threads import have_made
from ..runtime.time_slices import TimeSlice
from ..services.context import Context
from .routing import led_partition

Results = dict[str, dict[int, ErrorCode]]
"""By topic and partition."""


async def handle(ctx: Context, request: Request) -> WriteTxnMarkersResponse:
    body: WriteTxnMarkersRequest = request.body
    results: dict[int, Results] = {}
    written: dict[Log, list[tuple[dict[int, ErrorCode], int]]] = {}
    time_slice = TimeSlice()
    for marker in body.markers:
        async for topic in time_slice.each(marker.topics):
            async for index in time_slice.each(topic.partition_indexes):
                of_topic = results.setdefault(marker.producer_id, {}).setdefault(topic.name, {})
                of_topic[index] = await _write(ctx, marker, topic.name, index)
                if not of_topic[index] and (log := ctx.services.topics.partition(topic.name, index).log).needs_flush:
                    written.setdefault(log, []).append((of_topic, index))
    for log in await ctx.services.appends.flusher.flush_each(written):
        for of_topic, index in written[log]:
            of_topic[index] = ErrorCode.KAFKA_STORAGE_ERROR
    time_slice.begin()
    answers = []
    for producer_id, topics in results.items():
        told = []
        async for name, partitions in time_slice.each(topics.items()):
            rows = await time_slice.map(
                lambda one: WritableTxnMarkerPartitionResult(partition_index=one[0], error_code=one[1]),
                partitions.items(),
            )
            told.append(WritableTxnMarkerTopicResult(name=name, partitions=tuple(rows)))
        answers.append(WritableTxnMarkerResult(producer_id=producer_id, topics=tuple(told)))
        await time_slice.empty(topics)
    await time_slice.empty(results)
    return WriteTxnMarkersResponse(markers=tuple(answers))


async def refused(_: Context, request: Request, error: KafkaError) -> WriteTxnMarkersResponse:
    """The error, of each partition."""
    body: WriteTxnMarkersRequest = request.body
    time_slice, answers = TimeSlice(), []
    for marker in body.markers:
        told = []
        async for topic in time_slice.each(marker.topics):
            rows = await time_slice.map(
                lambda index: WritableTxnMarkerPartitionResult(partition_index=index, error_code=error.code),
                topic.partition_indexes,
            )
            told.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(rows)))
        answers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(told)))
    return WriteTxnMarkersResponse(markers=tuple(answers))


async def _write(ctx: Context, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    if marker.producer_id < 0 or marker.producer_epoch < 0 or marker.transaction_version < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # Apache Kafka's answer to a marker that cannot be.
    try:
        await have_made(led_partition(ctx, topic, index).log)
        ctx.services.coordinators.markers.write(
            led_partition(ctx, topic, index).topic_partition,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.transaction_result,
            transaction_version=marker.transaction_version,
        )
    except KafkaError as error:
        return ErrorCode(error.code)
    return ErrorCode.NONE
