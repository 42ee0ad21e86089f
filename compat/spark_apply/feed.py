"""Two days of a change feed, and the expected table after any part of it.

Every change follows from its number: customers are created and deleted, some change often, one in seven changes is a deletion.
The offset of a change is known before it is written, as one producer writes each partition in order.
"""

import json
import random
import zlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Producer

PARTITIONS = 3
START_MS = 1_764_028_800_000
TWO_DAYS_MS = 2 * 24 * 3600 * 1000
SCHEMA = "city STRING, orders BIGINT, tags ARRAY<STRING>"
CITIES = ("Bergen", "Oslo", "Tromsø", "Trondheim")


class Change(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    row: dict[str, Any] | None


def feed(changes: int, customers: int) -> list[Change]:
    ends: dict[int, int] = defaultdict(int)
    found = []
    for number in range(changes):
        chance = random.Random(number)
        key = f"customer-{int(customers * chance.random() ** 2):05}"
        partition = zlib.crc32(key.encode()) % PARTITIONS
        row = {"city": chance.choice(CITIES), "orders": number, "tags": [f"t{number % 7}"] * (number % 3)}
        # In event time, with a jitter: within a partition time runs backwards now and then.
        timestamp_ms = START_MS + number * TWO_DAYS_MS // changes + chance.randrange(60_000)
        found.append(Change(partition, ends[partition], timestamp_ms, key, None if chance.random() < 1 / 7 else row))
        ends[partition] += 1
    return found


def write(bootstrap: str, topic: str, changes: list[Change]) -> None:
    """RuntimeError: one was not taken, or has another offset than it should have."""
    wrong: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50})

    def delivered(offset: int) -> Any:
        def on_delivery(error: object, message: Any) -> None:
            if error or message.offset() != offset:
                wrong.append(error or (message.offset(), offset))

        return on_delivery

    for each in changes:
        value = None if each.row is None else json.dumps(each.row)
        while True:
            try:
                producer.produce(
                    topic, value, each.key, each.partition, delivered(each.offset), timestamp=each.timestamp_ms
                )
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
    if producer.flush(120) or wrong:
        raise RuntimeError(f"not all changes are where they should be: {wrong[:3]}")


def table_after(changes: list[Change], offsets: Mapping[int, int]) -> dict[str, dict[str, Any]]:
    """Return the expected contents of a table at these offsets."""
    newest = {each.key: each.row for each in changes if each.offset < offsets.get(each.partition, 0)}
    return {key: row for key, row in newest.items() if row is not None}
