"""Report of a failed test on its brokers: their log lines, and the last records of topics.

Log lines are kept without any effect on the user's own logging. The text about topics is bounded, and an error in it never
prevents a report.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from ...protocol.errors import KafkaError, ProtocolError
from ...protocol.schemas.frames import Part
from ...protocol.schemas.plain_json import MAX_STEPS
from ..client.kafka import Kafka
from ..client.security import PLAIN, Security
from ..client.values import Record
from ..registry.decoding.cluster_schemas import ClusterSchemas
from ..runtime.log_rate_limit import LogLines

LINES_KEPT = 1000
_LEVEL = logging.INFO - 1
"""Level of our own handler, which is recognizable: another level that is set during the run is the user's."""


class BrokerLog(logging.Handler):
    """Handler that keeps the lines of the brokers' loggers from INFO on.

    Other handlers get exactly the records that they would get without it: pytest's `caplog` and a user's log file do not
    change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LogLines("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        self.lines: deque[tuple[int, str]] = deque(maxlen=LINES_KEPT)
        """Lines, numbered from 0 on."""
        self.count = 0
        self._logger = logging.getLogger("ottla")
        self._level_before = self._logger.level
        self._logger.setLevel(_LEVEL)
        self._logger.addHandler(self)

    def detach(self) -> None:
        """Restore logging, except for later changes by others."""
        self._logger.removeHandler(self)
        if self._logger.level == _LEVEL:
            self._logger.setLevel(self._level_before)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.append((self.count, self.format(record)))
            self.count += 1
        except Exception:  # noqa: BLE001 -- a line cannot be formatted: its caller continues, as with all handlers
            self.handleError(record)
        if record.levelno < self._level_without_us(record.name):
            # Later handlers, including those of the root logger, take no record below their level, and none has a level below
            # this.
            record.levelno = -1

    def _level_without_us(self, name: str) -> int:
        """Return the level that a logger would have without ours: its own, or that of a logger between it and ours."""
        own = logging.getLogger(name).getEffectiveLevel()
        if own != _LEVEL:
            return own
        return self._level_before or logging.getLogger().getEffectiveLevel()

    def since(self, number: int, at_most: int) -> list[str]:
        """Return the lines from `number` on, the last `at_most` of them."""
        return [text for index, text in self.lines if index >= number][-at_most:]


TOPICS, PARTITIONS, RECORDS, CHARS = 5, 8, 10, 80
"""Largest number of each that is shown."""
OFFSETS_LOOKED_AT = 10_000
"""Number of offsets that are read from the end of a partition; a compacted one may have few records there."""
TIME_LIMIT_S = 2.0
"""Time limit for one response: the broker may be what failed."""


def tails(bootstrap: str, topics: Iterable[str], security: Security = PLAIN) -> str:
    """Format the last records of each topic, by partition; for an unreadable topic, the reason."""
    names = sorted(topics)
    lines: list[str] = []
    with Kafka(bootstrap, client_id="ottla-report", timeout_s=TIME_LIMIT_S, security=security) as kafka:
        schemas = ClusterSchemas(kafka, offsets_max=OFFSETS_LOOKED_AT, steps=MAX_STEPS)
        for name in names[:TOPICS]:
            try:
                lines += _tail(kafka, name, schemas)
            except (KafkaError, ProtocolError, OSError) as error:
                lines.append(f"topic {name}: cannot be read: {error}")
                break  # The error takes its time, and would for the other topics as well.
    if len(names) > TOPICS:
        lines.append(f"… and {len(names) - TOPICS} more topics: {', '.join(names[TOPICS:])[:200]}")
    return "\n".join(lines)


def _tail(kafka: Kafka, topic: str, schemas: ClusterSchemas) -> Iterator[str]:
    offsets = kafka.offsets(topic)
    for partition, (start, end) in sorted((index, (at.start, at.end)) for index, at in offsets.items())[:PARTITIONS]:
        found = _last(kafka, topic, partition, start, end)
        yield f"topic {topic}, partition {partition}: offsets {start} to {end} (exclusive), the last {len(found)} records"
        yield from (_line(record, schemas) for record in found)
    if len(offsets) > PARTITIONS:
        yield f"… and {len(offsets) - PARTITIONS} more partitions"


def _last(kafka: Kafka, topic: str, partition: int, start: int, end: int) -> Collection[Record]:
    """Return the last records below `end`: it reads further back only if compaction has left few, as records may be large."""
    back = RECORDS
    while True:
        first = max(start, end - back)
        found = deque(kafka.scan(topic, partition, start=first, end=end), RECORDS)
        if len(found) == RECORDS or first == start or back >= OFFSETS_LOOKED_AT:
            return found
        back *= 10


def _line(record: Record, schemas: ClusterSchemas) -> str:
    headers = f"  headers={_cut(dict(record.headers))}" if record.headers else ""
    key, value = _content(record, "key", schemas), _content(record, "value", schemas)
    return f"  {record.offset:>8}  {_time(record.timestamp_ms)}  {key}: {value}{headers}"


def _content(record: Record, part: Part, schemas: ClusterSchemas) -> str:
    """Return a key or value as JSON if it names a schema, else its bytes."""
    decoded = schemas.decoded(record, part)
    if decoded is not None and decoded.text is not None:
        return _short(decoded.text if decoded.text.isprintable() else repr(decoded.text))
    text = _cut(record.key if part == "key" else record.value)
    return text if decoded is None else f"{text} (schema {decoded.schema}: {_short(str(decoded.reason))})"


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def _cut(value: object) -> str:
    if isinstance(value, bytes):
        value = value[: CHARS + 1]
    return _short(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= CHARS else text[: CHARS - 1] + "…"
