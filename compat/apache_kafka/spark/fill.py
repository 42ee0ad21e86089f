"""Fills a running Apache Kafka for the pipeline: compacted topics with all that compaction has to mind, and a log of events.

cleaned    compacted; its cleaner works on it as soon as it may
lagging    the same, with a lag that holds the cleaner back: it is the pipeline's to compact
events     two partitions with all codecs, and a transaction that is not over
stamped    LogAppendTime
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from ...support.brokers.process import BrokerProcess
from ...support.clients.steps import CODECS, create_topic, set_topic_configs
from ...support.logs.segment_files import read_checkpoint

CLEANED, LAGGING, EVENTS, STAMPED = "cleaned", "lagging", "events", "stamped"
COMPACTED = (CLEANED, LAGGING)
PARTITIONS = {CLEANED: 1, LAGGING: 2, EVENTS: 2, STAMPED: 1}
SEGMENT_BYTES = 1 << 20
LAG_MS = 360_000_000
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that a broker allows: only its producer may end the open transaction while it is read."""
TIMESTAMP_MS = 1_700_000_000_000
VALUE_BYTES = 500
"""Random ones, so that no codec makes a round smaller than a segment."""


def places(*topics: str) -> list[tuple[str, int]]:
    return [(topic, partition) for topic in topics or PARTITIONS for partition in range(PARTITIONS[topic])]


def create_topics(bootstrap: str) -> None:
    compacted = {
        "cleanup_policy": "compact",
        "segment_bytes": str(SEGMENT_BYTES),
        "min_cleanable_dirty_ratio": "0.01",
    }
    create_topic(bootstrap, CLEANED, partitions=1, configs=compacted)
    create_topic(bootstrap, LAGGING, partitions=2, configs=compacted, min_compaction_lag_ms=str(LAG_MS))
    create_topic(bootstrap, EVENTS, partitions=2, segment_bytes=str(SEGMENT_BYTES), retention_ms="-1")
    create_topic(bootstrap, STAMPED, message_timestamp_type="LogAppendTime", retention_ms="-1")


def fill(bootstrap: str, *, rounds: int, keys: int) -> None:
    """Write everything but the open transaction; every round has a codec, and fills about two segments."""
    for number in range(rounds):
        for topic in COMPACTED:
            for partition in range(PARTITIONS[topic]):
                _updates(bootstrap, topic, partition, number, keys)
                _transactions(bootstrap, topic, partition, number, keys)
    for number, codec in enumerate(CODECS):
        _events(bootstrap, codec, number, 1_500)
        _transactions(bootstrap, EVENTS, number % 2, number, 100)
    stamped = Producer({"bootstrap.servers": bootstrap})
    for n in range(500):
        stamped.produce(STAMPED, b"stamped %d" % n, b"k%d" % n)
    assert stamped.flush(30) == 0


@contextmanager
def open_transaction(bootstrap: str) -> Iterator[None]:
    """Open a transaction on `events`, followed by committed data; it is aborted at the end."""
    pending = _transactional(bootstrap, "undecided")
    pending.begin_transaction()
    for n in range(50):
        pending.produce(EVENTS, b"undecided %d" % n, b"u%d" % n, partition=n % 2)
    assert pending.flush(30) == 0
    _events(bootstrap, "lz4", 99, 200)
    yield
    pending.abort_transaction(30)


def wait_for_checkpoint(broker: BrokerProcess, ends: dict[tuple[str, int], int], timeout_s: float = 60) -> None:
    """Wait until the broker has written that everything is replicated, as it does every few seconds.

    Raises:
        TimeoutError: It did not.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        written = read_checkpoint(broker.data / "replication-offset-checkpoint")
        if all(written.get(place, 0) >= end for place, end in ends.items()):
            return
        if time.monotonic() > deadline:
            raise TimeoutError("Apache Kafka did not write its high watermarks down")
        time.sleep(0.2)


def free_to_clean(bootstrap: str) -> None:
    """Let the broker's own cleaner clean the protected topics."""
    set_topic_configs(bootstrap, LAGGING, min_compaction_lag_ms="0")


def _updates(bootstrap: str, topic: str, partition: int, number: int, keys: int) -> None:
    codec, rng = CODECS[number % len(CODECS)], random.Random(f"{topic} {partition} {number}")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20})
    for key in range(keys):
        value = None if key % 25 == number else b"%d-%d " % (number, key) + rng.randbytes(VALUE_BYTES)
        headers = [("round", b"%d" % number), ("null", None)] if key % 3 == 0 else None
        timestamp = TIMESTAMP_MS + 1_000 * number + key
        producer.produce(topic, value, b"key-%d" % key, partition=partition, timestamp=timestamp, headers=headers or [])
        producer.poll(0)
    assert producer.flush(30) == 0


def _transactions(bootstrap: str, topic: str, partition: int, number: int, keys: int) -> None:
    """Write one transaction that is committed and one that is aborted, over keys that others also write."""
    producer = _transactional(bootstrap, f"filler-{topic}-{partition}")
    for commits in (True, False):
        producer.begin_transaction()
        for key in range(0, keys, 10):
            word = b"committed" if commits else b"aborted"
            producer.produce(topic, b"%s %d" % (word, number), b"key-%d" % (key + number), partition=partition)
        assert producer.flush(30) == 0
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def _events(bootstrap: str, codec: str, number: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
    for n in range(count):
        value = (b"event %d of %d " % (n, number)) * (1 + n % 40)
        key = None if n % 7 == 0 else b"event-%d" % n
        timestamp = TIMESTAMP_MS + 100_000 * number + n
        producer.produce(EVENTS, value, key, partition=n % 2, timestamp=timestamp, headers=[("n", b"%d" % n)])
        producer.poll(0)
    assert producer.flush(30) == 0


def _transactional(bootstrap: str, name: str) -> Producer:
    settings = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 5}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(30)
    return producer
