"""The time that librdkafka takes to read a topic, with limits at which a broker may make it wait."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from .asking import Side

PATIENCE_S = 60.0


class Reading(NamedTuple):
    topic: str
    batches: int
    fetch_bytes: int
    """The value of fetch.min.bytes and max.partition.fetch.bytes."""
    max_wait_ms: int


READINGS = {
    "30 MB, min = max = 1 MiB": Reading("thirty", 300, 1 << 20, 500),
    "30 MB, min = max = 100 000": Reading("thirty", 300, 100_000, 500),
    "152 compacted segments of 4 KB, min = max = 100 000": Reading("segments_152", 152, 100_000, 200),
}


def fill(side: Side) -> None:
    side.create("thirty", segment_bytes=str(1 << 20))
    side.produce("thirty", [100_000] * 300)
    # Each batch is so much later than the one before that it begins a segment.
    side.create("segments_152", cleanup_policy="compact", segment_ms="100", min_compaction_lag_ms="86400000")
    now_ms = int(time.time() * 1000)
    side.produce("segments_152", [4_000] * 152, timestamps=range(now_ms - 152_000, now_ms, 1_000))


def seconds(bootstrap: str, reading: Reading) -> float:
    """Return the time from the first request to the last record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reading",
            "enable.auto.commit": False,
            "fetch.min.bytes": reading.fetch_bytes,
            "max.partition.fetch.bytes": reading.fetch_bytes,
            "fetch.wait.max.ms": reading.max_wait_ms,
        }
    )
    try:
        begun_s = time.perf_counter()
        consumer.assign([TopicPartition(reading.topic, 0, OFFSET_BEGINNING)])
        count = 0
        while count < reading.batches and time.perf_counter() - begun_s < PATIENCE_S:
            count += sum(message.error() is None for message in consumer.consume(500, 0.2))
        return time.perf_counter() - begun_s
    finally:
        consumer.close()
