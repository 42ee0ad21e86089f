"""Reading of partitions, from the log start to the present end, without gaps, control batches and aborted data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal

from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.messages.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic, PartitionData
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.records import HEADER_BYTES, RecordBatch
from ...protocol.records import Record as LogRecord
from .nodes import NodeConnections, check, partition_in
from .values import Offsets, Record

Isolation = Literal["read_uncommitted", "read_committed"]
LEVELS: dict[str, int] = {"read_uncommitted": 0, "read_committed": 1}
EARLIEST, LATEST = -2, -1
FETCH_BYTES = 8 << 20


def offsets(nodes: NodeConnections, topic: str, partition: int, isolation: Isolation = "read_uncommitted") -> Offsets:
    """Return the readable range of a partition: from the log start offset to the high watermark or, for `read_committed`, the
    last stable offset."""
    level = _level(isolation)

    def ask(timestamp: int) -> int:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=level,
            topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),),
            timeout_ms=round(nodes.timeout_s * 1000),
        )
        (row,) = nodes.ask_leader(request, topic, partition).topics[0].partitions
        check(row.error_code, f"topic {topic!r}, partition {partition}")
        return int(row.offset)

    return Offsets(nodes.retrying(partial(ask, EARLIEST)), nodes.retrying(partial(ask, LATEST)))


def records(
    nodes: NodeConnections,
    topic: str,
    partition: int,
    isolation: Isolation = "read_uncommitted",
    *,
    start: int | None = None,
    end: int | None = None,
) -> Iterator[Record]:
    """Yield the records of a partition, one fetch after the other.

    Args:
        start: First offset; None, and any offset below the log start, mean the log start.
        end: End, exclusive; None is the present end of the log. The call does not wait for more records.

    Raises:
        KafkaError: Unknown partition, or a damaged batch; the records before it were yielded.
        OSError: No response.
    """
    level = _level(isolation)
    partition_in(nodes.retrying(lambda: nodes.topic(topic)), partition)
    there = offsets(nodes, topic, partition, isolation)
    position = there.start if start is None else max(start, there.start)
    end = there.end if end is None else min(end, there.end)
    for wanted, data in fetches(nodes, topic, partition, level, position, end):
        for _, found in visible_records(data, topic, level):
            for record in found:
                if wanted <= record.offset < end:
                    yield Record(
                        topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers
                    )


def fetches(
    nodes: NodeConnections,
    topic: str,
    partition: int,
    level: int,
    start: int,
    end: int,
    *,
    fetch_bytes: int = FETCH_BYTES,
) -> Iterator[tuple[int, PartitionData]]:
    """Yield the offset that each fetch asks for, and the response, from `start` on until one has reached `end`.

    What the broker has deleted is skipped. A response may begin before the offset, and end with a part of a batch. It ends before
    `end` if the log ends in a gap: compaction has removed the records.
    """
    position = start
    while position < end:
        data = nodes.retrying(partial(_fetch, nodes, topic, partition, position, level, fetch_bytes))
        if (
            data.error_code
        ):  # Out of range: retention or DeleteRecords has removed the records, or the topic is another one.
            start_now = offsets(nodes, topic, partition).start
            if start_now <= position:
                return
            position = start_now
            continue
        yield position, data
        after = max((batch.next_offset for batch in whole_batches(data)), default=position)
        if after <= position:
            return
        position = after


def visible_records(data: PartitionData, topic: str, level: int) -> Iterator[tuple[RecordBatch, Iterable[LogRecord]]]:
    """Yield each whole batch of a response, and its records that a consumer gets.

    Raises:
        CorruptRecordError: A batch is damaged.
    """
    shown = _Shown(data.aborted_transactions or (), level)
    for batch in whole_batches(data):
        if not batch.is_crc_valid():
            raise CorruptRecordError(
                f"{topic}-{data.partition_index}: invalid CRC in the batch at offset {batch.base_offset}"
            )
        yield batch, batch.records() if shown.admits(batch) else ()


def _fetch(
    nodes: NodeConnections, topic: str, partition: int, offset: int, level: int, fetch_bytes: int
) -> PartitionData:
    """Fetch without waiting; OFFSET_OUT_OF_RANGE is returned, all other errors are raised."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=fetch_bytes)
    request = FetchRequest(
        max_bytes=fetch_bytes, isolation_level=level, topics=(FetchTopic(topic=topic, partitions=(wanted,)),)
    )
    answer = nodes.ask_leader(request, topic, partition)
    check(answer.error_code, f"topic {topic!r}, partition {partition}")
    data: PartitionData = answer.responses[0].partitions[0]
    if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
        check(data.error_code, f"topic {topic!r}, partition {partition}, offset {offset}")
        if not data.records and answer.throttle_time_ms:
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"throttled for {answer.throttle_time_ms} ms")
    return data


def whole_batches(data: PartitionData) -> Iterator[RecordBatch]:
    """Yield the batches of a response; a broker may cut the last one."""
    records = data.records or b""
    assert isinstance(records, bytes | memoryview)  # Received data is never a slice of a file.
    at = 0
    while len(records) - at >= HEADER_BYTES:
        batch = RecordBatch(records, at)
        if not batch.is_whole:
            return
        yield batch
        at += batch.size_bytes


class _Shown:
    """Visibility of the batches of one response for a reader; called for each in order. Source: KIP-98, "READ_COMMITTED"."""

    def __init__(self, aborted: tuple[AbortedTransaction, ...], level: int) -> None:
        self._begin = deque(sorted(aborted, key=lambda one: one.first_offset)) if level else deque()
        self._open: set[int] = set()
        """Producers with an aborted transaction at the present batch."""

    def admits(self, batch: RecordBatch) -> bool:
        while self._begin and self._begin[0].first_offset <= batch.last_offset:
            self._open.add(self._begin.popleft().producer_id)
        if batch.is_control:
            self._open.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._open)


def _level(isolation: str) -> int:
    if isolation not in LEVELS:
        raise ValueError(f"invalid isolation {isolation!r}; must be one of: {', '.join(LEVELS)}")
    return LEVELS[isolation]
