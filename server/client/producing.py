"""Producing: all records are encoded and checked before the first is sent, then one batch after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, groupby
from typing import NamedTuple

from ...protocol.batch_builder import build_batch
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from .nodes import BEING_MADE_S, NodeConnections, check, partition_in
from .values import Content, NewRecord, Record, Topic, content, expect, headers, partition_of

BATCH_RECORDS, BATCH_BYTES = 10_000, 900_000
"""Limits of a batch, which ends with the record that reaches either; Apache Kafka's `max.message.bytes` is 1 MiB and 12
bytes."""
_I64_MAX = (1 << 63) - 1


class _Encoded(NamedTuple):
    """A record without an offset so far; `place` is its index in the argument."""

    place: int
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def size_bytes(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + sum(len(n) + len(v or b"") for n, v in self.headers) + 32


def produce(
    nodes: NodeConnections,
    topic: str,
    records: Iterable[NewRecord | tuple[Content, Content]],
    turns: Iterator[int],
    now_ms: int,
) -> list[Record]:
    """Append `records` (a pair is a key and a value), in their order within each partition.

    Args:
        turns: Numbers by which records without key and partition are spread over the partitions.
        now_ms: Timestamp of records without one.

    Returns:
        The records as they are in the log now, in the order given.

    Raises:
        TypeError, ValueError, KafkaError: A record is invalid; nothing was sent.
        KafkaError, OSError: A batch was refused, or got no response; those before it are written.
    """
    expect("records", records, Iterable)
    given = [one if isinstance(one, NewRecord) else _pair(one) for one in records]
    if not given:
        return []
    there = nodes.retrying(lambda: nodes.topic(topic, create=True), unknown_s=BEING_MADE_S)
    encoded = [_encode(place, one, there, turns, now_ms) for place, one in enumerate(given)]
    placed: list[Record | None] = [None] * len(encoded)
    for batch in _batches(sorted(encoded, key=lambda one: one.partition)):
        for place, record in _send(nodes, topic, batch, there):
            placed[place] = record
    return [record for record in placed if record is not None]


def _pair(given: object) -> NewRecord:
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"record must be a NewRecord or a pair of key and value, not {given!r:.80}")
    key, value = given
    return NewRecord(value, key)


def _encode(place: int, given: NewRecord, topic: Topic, turns: Iterator[int], now_ms: int) -> _Encoded:
    key, value = content("key", given.key), content("value", given.value)
    if given.partition is not None:
        partition = partition_in(topic, given.partition).index
    elif key is None:
        partition = next(turns) % len(topic.partitions)
    else:
        partition = partition_of(key, len(topic.partitions))
    timestamp_ms = now_ms if given.timestamp_ms is None else given.timestamp_ms
    expect("timestamp_ms", timestamp_ms, int)
    if not -1 <= timestamp_ms <= _I64_MAX:
        raise ValueError(f"timestamp {timestamp_ms} ms is out of range; must be from -1 (none) to {_I64_MAX}")
    return _Encoded(place, partition, timestamp_ms, key, value, headers(given.headers))


def _batches(encoded: list[_Encoded]) -> Iterator[list[_Encoded]]:
    for _, rows in groupby(encoded, key=lambda one: one.partition):
        batch: list[_Encoded] = []
        size_bytes = 0
        for row in rows:
            if batch and (len(batch) == BATCH_RECORDS or size_bytes + row.size_bytes > BATCH_BYTES):
                yield batch
                batch, size_bytes = [], 0
            batch.append(row)
            size_bytes += row.size_bytes
        yield batch


def _send(nodes: NodeConnections, topic: str, batch: list[_Encoded], there: Topic) -> Iterator[tuple[int, Record]]:
    partition = batch[0].partition
    leaders = [there]
    """Metadata for the first attempt; a further one asks for the leader again."""
    offsets = count()
    data = build_batch([(next(offsets), row.timestamp_ms, row.key, row.value, row.headers) for row in batch])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=round(nodes.timeout_s * 1000),
        topic_data=(
            TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=partition, records=data),)),
        ),
    )

    def attempt() -> tuple[int, int]:
        known = leaders.pop() if leaders else None
        (answer,) = nodes.ask_leader(request, topic, partition, known).responses[0].partition_responses
        if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            size = f"a batch of {len(data)} bytes"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size} exceeds max.message.bytes of topic {topic!r}")
        wrong = "; ".join(one.batch_index_error_message or "" for one in answer.record_errors[:1])
        check(answer.error_code, f"topic {topic!r}: {wrong or answer.error_message or f'partition {partition}'}")
        return answer.base_offset, answer.log_append_time_ms

    # A batch without a response may be written: without sequences it must not be sent twice.
    base_offset, append_time_ms = nodes.retrying(attempt, repeatable=False)
    for offset, row in enumerate(batch, base_offset):
        timestamp_ms = row.timestamp_ms if append_time_ms < 0 else append_time_ms
        yield row.place, Record(topic, partition, offset, timestamp_ms, row.key, row.value, row.headers)
