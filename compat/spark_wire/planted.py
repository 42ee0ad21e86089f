"""Topics with planted errors, and correct ones: written by librdkafka, which shares no code with the verifier."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer

from ..support.clients.steps import create_topic, produce_all, set_topic_configs

HELD = {"cleanup.policy": "compact", "min.compaction.lag.ms": "9000000000000"}
"""The configs of a compacted topic that the broker's cleaner never cleans."""
CLEANED = {"cleanup.policy": "compact", "segment.bytes": str(1 << 20), "min.cleanable.dirty.ratio": "0.01"}
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

Record = tuple[str | None, str | None] | tuple[str | None, str | None, Mapping[str, Any]]
"""Key, value, and what else `Producer.produce` takes."""


def write(bootstrap: str, topic: str, records: Iterable[Record], *, partition: int = 0) -> None:
    produce_all(
        bootstrap,
        topic,
        ({"key": key, "value": value, "partition": partition, **dict(*more)} for key, value, *more in records),
    )


def cleaned(bootstrap: str, topic: str) -> None:
    """Four segments of updates and tombstones, for the broker's cleaner to work on."""
    create_topic(bootstrap, topic, configs=CLEANED)
    for part in range(4):
        write(bootstrap, topic, ((f"key-{n}", None if n == part else f"{part} " + "v" * 1_000) for n in range(1_000)))


def left_below(bootstrap: str, topic: str) -> None:
    """Twice the same key at 0 and 2, and another one at 3 and 4."""
    create_topic(bootstrap, topic, configs=HELD)
    write(bootstrap, topic, [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("c", "2")])


def in_transactions(bootstrap: str, topic: str) -> None:
    """Write a marker at offset 2, after a key that exists twice."""
    create_topic(bootstrap, topic, configs=HELD)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in ("1", "2"):
        producer.produce(topic, value, "a", partition=0)
    producer.commit_transaction(30)
    write(bootstrap, topic, [("b", "1")])


def without_keys(bootstrap: str, topic: str) -> None:
    """Write records without a key at offsets 0 and 2; only then set the topic to compact."""
    create_topic(bootstrap, topic)
    write(bootstrap, topic, [(None, "1"), ("a", "1"), (None, "2"), ("b", "1")])
    set_topic_configs(bootstrap, topic, cleanup_policy="compact")


def grown_old(bootstrap: str, topic: str, *, faulty: bool) -> None:
    """Write five days of a topic, ten days ago; if faulty, with a duplicate key (0, 1) and a tombstone (2) that stayed."""
    create_topic(bootstrap, topic, configs=HELD, segment_ms=str(HOUR_MS), delete_retention_ms=str(DAY_MS))
    begin_ms = time.time_ns() // 1_000_000 - 10 * DAY_MS
    old: list[Record] = [("a", "1"), ("a", "2"), ("b", None)] if faulty else [("a", "2"), ("c", "1"), ("d", "1")]
    old = [(*each[:2], {"timestamp": begin_ms + number}) for number, each in enumerate(old)]
    late = [("x", "1", 3), ("y", None, 4), ("y", "1", 5)]  # a tombstone that may stay, and a value that is active
    more: list[Record] = [(key, value, {"timestamp": begin_ms + days * DAY_MS}) for key, value, days in late]
    write(bootstrap, topic, [*old, *more])


SOURCE: Sequence[Record] = [
    ("same", "1", {"headers": [("h", b"1")]}),
    ("updated", "1"),
    ("updated", "2"),
    ("deleted", "1"),
    ("deleted", None),
    ("nowhere", None),
]
MIRROR: Sequence[Record] = [
    ("another", None),
    ("updated", "2"),
    ("same", "1", {"headers": [("h", b"2")]}),
    ("deleted", None),
]
"""A possible mirror: other offsets, superseded records and tombstones are gone. A header differs."""

FAULTY: Mapping[str, tuple[Sequence[str | None], Sequence[str | None], str, str]] = {
    "missing there": (("1",), (), "a key is on both sides", "no record of it"),
    "missing here": ((), ("1",), "a key is on both sides", "no record of it"),
    "deleted there": (("1",), ("1", None), "a key is on both sides", "a tombstone"),
    "other value": (("1", "2"), ("1", "3"), "the newest value of a key is the same on both sides", "another value"),
    "lags there": (("1", "2"), ("1",), "the newest value of a key is the same on both sides", "a newer one"),
    "order": (("1", "2"), ("2", "1"), "the versions of a key have the same order on both sides", "in another order"),
}
"""Key -> its values here and there, the rule and the message."""
OF_VERSIONS: Mapping[str, tuple[Sequence[str | None], Sequence[str | None], str, str]] = {
    "order before": (("1", "2", "3"), ("2", "1", "3"), FAULTY["order"][2], "the same versions in another order"),
    "once too few": (("1", "2", "3"), ("1", "3"), "a key has as many versions on both sides", "is not on the other side"),
}  # fmt: skip
"""Errors that only --every-version finds."""


def pair(bootstrap: str, here: str, there: str, keys: Mapping[str, tuple[Any, ...]]) -> None:
    """Fill two topics of two partitions: these keys in the second partition, one more key that both sides have in the first."""
    for side, topic in enumerate((here, there)):
        create_topic(bootstrap, topic, partitions=2, configs=HELD)
        records: list[Record] = [("same", "1")] * (1 + side)
        write(bootstrap, topic, records, partition=0)
        records = [(key, value) for key, values in keys.items() for value in values[side]]
        write(bootstrap, topic, records, partition=1)
