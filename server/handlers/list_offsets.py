"""ListOffsets, API key 2, versions 1-11.

Behaviour
- A timestamp finds the first record at or after it; negative timestamps are special queries, each since a certain version
  (table below).
- With `read_committed` the latest offset is the last stable one.
- If no record is found, offset and timestamp are −1, without an error. A compressed record before it that is larger than
  `max.decompressed.message.bytes` is INVALID_RECORD.
- Timestamps are searched in worker threads, see `searches`. A search ends when its client disconnects; when the node stops, the
  answer is NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...protocol.wire import as_array
from ...storage.logs.log import Log
from ..partitions.searches import Search
from ..partitions.topics import Partition
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check
from .routing import led_partition

READ_COMMITTED = 1
NO_TIMESTAMP = -1
NO_OFFSET = -1

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6

Answer = tuple[int, int, int]
"""Type of an answer: timestamp, offset, leader epoch."""


def _latest(partition: Partition, committed: bool) -> Answer:
    return NO_TIMESTAMP, _end(partition.log, committed), partition.leader_epoch


def _earliest(partition: Partition, _committed: bool) -> Answer:
    log = partition.log
    epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
    return NO_TIMESTAMP, log.log_start_offset, partition.leader_epoch if epoch is None else epoch


def _max_timestamp(partition: Partition, _committed: bool) -> Search:
    return Search(partition.log, partition.log.search_max_timestamp())


def _never_tiered(_partition: Partition, _committed: bool) -> Answer:
    return NO_TIMESTAMP, NO_OFFSET, -1


# Timestamp -> (first version that may use it, function that answers it). KIP-734, KIP-405, KIP-1005, KIP-1023.
QUESTIONS: dict[int, tuple[int, Callable[[Partition, bool], Answer | Search]]] = {
    LATEST: (0, _latest),
    EARLIEST: (0, _earliest),
    MAX_TIMESTAMP: (7, _max_timestamp),
    EARLIEST_LOCAL: (8, _earliest),
    LATEST_TIERED: (9, _never_tiered),
    EARLIEST_PENDING_UPLOAD: (11, _never_tiered),
}


async def handle(ctx: Context, request: Request) -> ListOffsetsResponse:
    body: ListOffsetsRequest = request.body
    committed = body.isolation_level == READ_COMMITTED
    time_slice = TimeSlice()
    asked: Counter[tuple[str, int]] = Counter()
    async for topic in time_slice.each(body.topics):
        async for wanted in time_slice.each(topic.partitions):
            asked[topic.name, wanted.partition_index] += 1
    answers: list[Answer | ErrorCode | Search] = []
    searches: list[Search] = []
    async for topic in time_slice.each(body.topics):
        async for wanted in time_slice.each(topic.partitions):
            answer = _answer(ctx, topic.name, wanted, request.version, committed, asked)
            answers.append(answer)
            if isinstance(answer, Search):
                searches.append(answer)
    if searches:

        def check() -> None:
            ctx.client.check_peer()
            if ctx.services.cluster.is_stopping or not ctx.node.is_alive:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node is shutting down")

        try:
            await ctx.services.searches.run(searches, ctx.client.client_host, check)
        except KafkaError as error:
            answers = await time_slice.map(partial(_given_up, error.code), answers)
        time_slice.begin()
    told = iter(answers)
    topics: list[ListOffsetsTopicResponse] = []
    async for topic in time_slice.each(body.topics):
        partitions: list[ListOffsetsPartitionResponse] = []
        async for wanted, answer in time_slice.each(zip(topic.partitions, told, strict=False)):
            partitions.append(_partition_response(wanted.partition_index, answer, committed))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=as_array(partitions)))
    await time_slice.empty(asked, answers)
    return ListOffsetsResponse(throttle_time_ms=0, topics=as_array(topics))


def _answer(
    ctx: Context,
    topic: str,
    wanted: ListOffsetsPartition,
    version: int,
    committed: bool,
    asked: Counter[tuple[str, int]],
) -> Answer | ErrorCode | Search:
    try:
        check(ctx, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        if asked[topic, wanted.partition_index] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}-{wanted.partition_index} is requested twice")
        partition = led_partition(ctx, topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        timestamp, log = wanted.timestamp, partition.log
        if timestamp >= 0:
            return Search(log, log.search_timestamp(timestamp))
        since, question = QUESTIONS.get(timestamp, (version + 1, _latest))
        if version < since:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"timestamp {timestamp} is not supported by ListOffsets version {version}",
            )
        return question(partition, committed)
    except KafkaError as error:
        # Not the error: tens of thousands of them, with their tracebacks, would be freed at once.
        return error.code


def _given_up(code: ErrorCode, answer: Answer | ErrorCode | Search) -> Answer | ErrorCode | Search:
    return code if isinstance(answer, Search) else answer


def _search_result(search: Search, committed: bool) -> Answer:
    """Return the result of a search, unless it is not visible so far. Raises the search's error."""
    if isinstance(search.found, KafkaError):
        raise search.found
    if search.found is None or search.found.offset >= _end(search.log, committed):
        return NO_TIMESTAMP, NO_OFFSET, -1
    return search.found


def _partition_response(
    partition_index: int, answer: Answer | ErrorCode | Search, committed: bool
) -> ListOffsetsPartitionResponse:
    if isinstance(answer, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=partition_index, error_code=answer)
    try:
        timestamp, offset, epoch = _search_result(answer, committed) if isinstance(answer, Search) else answer
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=partition_index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode.NONE,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch,
    )


def _end(log: Log, committed: bool) -> int:
    return log.last_stable_offset if committed else log.high_watermark
