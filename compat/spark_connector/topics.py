"""Topics that the suite fills itself, so that it knows every row before a reader does."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from confluent_kafka import Producer

from ..support.clients.steps import create_topic

START_MS = int(time.time()) * 1000 - 3_600_000
STEP_MS = 1_000
Headers = tuple[tuple[str, bytes | None], ...]
Ranges = dict[int, tuple[int, int]]
"""Partition -> its first offset and the one after its last."""


@dataclass(frozen=True, order=True, slots=True)
class Row:
    """A record as the connector's columns give it; timestamp in Unix ms, type 0 CreateTime, 1 LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


def timestamp_ms(offset: int) -> int:
    return START_MS + STEP_MS * offset


def row(topic: str, partition: int, offset: int, *, headers: bool = False) -> Row:
    """Return the row that `fill` writes: every tenth key and every thirteenth value is null, headers repeat and may be null."""
    key = None if offset % 10 == 7 else b"key-%d" % (offset % 25)
    value = None if offset % 13 == 5 else b"%s-%d-%d" % (topic.encode(), partition, offset)
    with_headers = (("origin", b"%d" % partition), ("twice", b"1"), ("twice", None), ("", b""))[: offset % 5]
    kept = (with_headers or None) if headers else None
    return Row(topic, partition, offset, timestamp_ms(offset), 0, key, value, kept)


def rows(topic: str, ranges: Ranges, *, headers: bool = False) -> list[Row]:
    """Return the rows of `fill` in these ranges, sorted."""
    every = ([row(topic, number, at, headers=headers) for at in range(*span)] for number, span in ranges.items())
    return sorted(chain.from_iterable(every))


def create_and_fill(bootstrap: str, topic: str, records: int, *, partitions: int = 1, **configs: str) -> Ranges:
    create_topic(bootstrap, topic, partitions=partitions, configs=configs)
    ranges = {number: (0, records) for number in range(partitions)}
    fill(bootstrap, topic, ranges)
    return ranges


def fill(bootstrap: str, topic: str, ranges: Ranges, *, codec: str = "none") -> None:
    """Produce `row` for each offset; the ranges continue what the partitions hold."""
    send(bootstrap, rows(topic, ranges, headers=True), codec=codec)


def send(bootstrap: str, records: Iterable[Row], *, codec: str = "none", idempotent: bool = True) -> None:
    """Produce records in their order, each acknowledged. RuntimeError when one is not."""
    failed: list[object] = []
    options = {"enable.idempotence": idempotent, "compression.type": codec, "log_level": 2}
    producer = Producer({"bootstrap.servers": bootstrap, **options})
    for each in records:
        produce(producer, each, lambda error, _: failed.append(error) if error else None)
    if producer.flush(60) or failed:
        raise RuntimeError(f"not all records were acknowledged: {failed[:3]}")


def produce(producer: Producer, record: Row, delivered: Callable[[object, object], None] | None = None) -> None:
    producer.produce(
        record.topic,
        record.value,
        record.key,
        partition=record.partition,
        on_delivery=delivered,
        timestamp=record.timestamp_ms,
        headers=list(record.headers or ()),
    )
