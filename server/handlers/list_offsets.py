"""ListOffsets, API key 2, versions 1-11.

Behaviour
- A timestamp gives the first record at or after it; negative ones are questions of their own, each
  from a certain version on (table below).
- With `read_committed` the latest offset is the last stable one.
- Nothing found is no error: offset −1, timestamp −1.
- What is asked by timestamp is looked for in a worker thread, since it takes records, which may have to be unpacked, and
  indexes that nobody has read since the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ...storage.cleaner_checkpoints import data_dir_of
from ...storage.log import Log
from ...storage.log_reader import FoundOffset
from ..connection import Context
from ..disk import Work, in_thread
from ..routing import led_partition
from ..topics import Partition
from ..turns import Turn

READ_COMMITTED = 1
NO_TIMESTAMP = -1
NO_OFFSET = -1

# How long one request may have a thread before others get it.
SEARCHING_S = 0.05
SEARCHES_AT_ONCE_MAX = 1000

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6

Answer = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""


def _latest(partition: Partition, committed: bool) -> Answer:
    return NO_TIMESTAMP, _end(partition.log, committed), partition.leader_epoch


def _earliest(partition: Partition, _committed: bool) -> Answer:
    log = partition.log
    epoch = log.leader_epochs.epoch_for_offset(log.log_start_offset)
    return NO_TIMESTAMP, log.log_start_offset, partition.leader_epoch if epoch is None else epoch


def _max_timestamp(partition: Partition, _committed: bool) -> Search:
    return Search(partition.log, partition.log.max_timestamp_and_offset)


def _never_tiered(_partition: Partition, _committed: bool) -> Answer:
    return NO_TIMESTAMP, NO_OFFSET, -1


# Timestamp -> (first version that may ask it, what answers it). KIP-734, KIP-405, KIP-1005, KIP-1023.
QUESTIONS: dict[int, tuple[int, Callable[[Partition, bool], Answer | Search]]] = {
    LATEST: (0, _latest),
    EARLIEST: (0, _earliest),
    MAX_TIMESTAMP: (7, _max_timestamp),
    EARLIEST_LOCAL: (8, _earliest),
    LATEST_TIERED: (9, _never_tiered),
    EARLIEST_PENDING_UPLOAD: (11, _never_tiered),
}


@dataclass(slots=True)
class Search:
    """What only a look at records can tell: work for a worker thread."""

    log: Log
    look: Callable[[], FoundOffset | None]
    found: FoundOffset | KafkaError | None = None

    def run(self) -> None:
        try:
            self.found = self.look()
        except KafkaError as error:
            self.found = error

    def answer(self, committed: bool) -> Answer:
        """What was found, unless it is not to be seen yet. Raises what the look raised."""
        if isinstance(self.found, KafkaError):
            raise self.found
        if self.found is None or self.found.offset >= _end(self.log, committed):
            return NO_TIMESTAMP, NO_OFFSET, -1
        return self.found


async def handle(ctx: Context, request: Request) -> ListOffsetsResponse:
    body: ListOffsetsRequest = request.body
    committed = body.isolation_level == READ_COMMITTED
    turn = Turn()
    asked: Counter[tuple[str, int]] = Counter()
    for topic in body.topics:
        if turn.is_over():
            await turn.next()
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.next()
            asked[topic.name, wanted.partition_index] += 1
    answers: list[Answer | KafkaError | Search] = []
    searches: list[Search] = []
    for topic in body.topics:
        if turn.is_over():
            await turn.next()
        for wanted in topic.partitions:
            if turn.is_over():
                await turn.next()
            answer = _answer(ctx, topic.name, wanted, request.version, committed, asked)
            answers.append(answer)
            if isinstance(answer, Search):
                searches.append(answer)
    await _run(searches)
    turn.begin()
    told = iter(answers)
    topics: list[ListOffsetsTopicResponse] = []
    for topic in body.topics:
        if turn.is_over():
            await turn.next()
        partitions: list[ListOffsetsPartitionResponse] = []
        for wanted, answer in zip(topic.partitions, told, strict=False):
            if turn.is_over():
                await turn.next()
            partitions.append(_told(wanted.partition_index, answer, committed))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return ListOffsetsResponse(throttle_time_ms=0, topics=tuple(topics))


def _answer(
    ctx: Context,
    topic: str,
    wanted: ListOffsetsPartition,
    version: int,
    committed: bool,
    asked: Counter[tuple[str, int]],
) -> Answer | KafkaError | Search:
    try:
        if asked[topic, wanted.partition_index] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic}-{wanted.partition_index} is asked for twice")
        partition = led_partition(ctx, topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        timestamp, log = wanted.timestamp, partition.log
        if timestamp >= 0:
            return Search(log, partial(log.offset_for_timestamp, timestamp))
        since, question = QUESTIONS.get(timestamp, (version + 1, _latest))
        if version < since:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"ListOffsets version {version} has no timestamp {timestamp}"
            )
        return question(partition, committed)
    except KafkaError as error:
        return error


async def _run(searches: Sequence[Search]) -> None:
    turn = Turn()
    in_each_data_dir: dict[str, list[Search]] = {}
    for search in searches:
        if turn.is_over():
            await turn.next()
        in_each_data_dir.setdefault(data_dir_of(search.log), []).append(search)
    for data_dir, those in in_each_data_dir.items():
        done = 0
        while done < len(those):
            some = those[done : done + SEARCHES_AT_ONCE_MAX]
            done += await in_thread(Work.SEARCH, data_dir, _run_some, some)


def _run_some(searches: Sequence[Search]) -> int:
    """Run the first of these, one at least; returns how many. Then it is somebody else's turn to have the thread."""
    until_s = perf_counter() + SEARCHING_S
    for count, search in enumerate(searches, 1):
        search.run()
        if perf_counter() >= until_s:
            return count
    return len(searches)


def _told(partition_index: int, answer: Answer | KafkaError | Search, committed: bool) -> ListOffsetsPartitionResponse:
    try:
        if isinstance(answer, KafkaError):
            raise answer
        timestamp, offset, epoch = answer.answer(committed) if isinstance(answer, Search) else answer
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
