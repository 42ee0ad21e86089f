"""What lies at the end of topics, as text for a report: bounded, and never the reason that a report fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from ...protocol.errors import KafkaError, ProtocolError
from ..client.kafka import Kafka
from ..client.security import PLAIN, Security
from ..client.values import Record

TOPICS, PARTITIONS, RECORDS, CHARS = 5, 8, 10, 80
"""At most so many of each are shown."""
OFFSETS_LOOKED_AT = 10_000
"""Of a partition, from its end; a compacted one may have few records there."""
TIME_LIMIT_S = 2.0
"""For one answer: the broker may be what failed."""


def tails(bootstrap: str, topics: Iterable[str], security: Security = PLAIN) -> str:
    """The last records of each topic, by partition; of one that cannot be read, the reason."""
    names = sorted(topics)
    lines: list[str] = []
    with Kafka(bootstrap, client_id="ottla-report", timeout_s=TIME_LIMIT_S, security=security) as kafka:
        for name in names[:TOPICS]:
            try:
                lines += _tail(kafka, name)
            except (KafkaError, ProtocolError, OSError) as error:
                lines.append(f"topic {name}: cannot be read: {error}")
                break  # It takes its time to find out, and would for the others, too.
    if len(names) > TOPICS:
        lines.append(f"… and {len(names) - TOPICS} more topics: {', '.join(names[TOPICS:])[:200]}")
    return "\n".join(lines)


def _tail(kafka: Kafka, topic: str) -> Iterator[str]:
    offsets = kafka.offsets(topic)
    for partition, (start, end) in sorted((index, (at.start, at.end)) for index, at in offsets.items())[:PARTITIONS]:
        found = _last(kafka, topic, partition, start, end)
        yield f"topic {topic}, partition {partition}: offsets {start} to {end} (exclusive), the last {len(found)} records"
        yield from map(_line, found)
    if len(offsets) > PARTITIONS:
        yield f"… and {len(offsets) - PARTITIONS} more partitions"


def _last(kafka: Kafka, topic: str, partition: int, start: int, end: int) -> Collection[Record]:
    """The last records below `end`: further back only where compaction has left few, as records may be large."""
    back = RECORDS
    while True:
        first = max(start, end - back)
        found = deque(kafka.scan(topic, partition, start=first, end=end), RECORDS)
        if len(found) == RECORDS or first == start or back >= OFFSETS_LOOKED_AT:
            return found
        back *= 10


def _line(record: Record) -> str:
    headers = f"  headers={_cut(dict(record.headers))}" if record.headers else ""
    return f"  {record.offset:>8}  {_time(record.timestamp_ms)}  {_cut(record.key)}: {_cut(record.value)}{headers}"


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _cut(value: object) -> str:
    if isinstance(value, bytes):
        value = value[: CHARS + 1]
    text = repr(value)
    return text if len(text) <= CHARS else text[: CHARS - 1] + "…"
