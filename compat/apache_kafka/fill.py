"""Fills a running Apache Kafka: all codecs, transactions, a group, a compacted topic that was cleaned.

The compacted topic, in offset order:

    cleaned part      keys 0 … KEYS-1 many times, with tombstones; the cleaner worked on it
    ---- the cleaner's checkpoint, noted ----
    twice             keys `twice-N`, each written two times and never again
    later             keys 0 … KEYS-1 again

After the noted checkpoint the topic is dirty; a compaction lag of days blocks the cleaner.
"""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer

from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import CODECS, create_topic, set_topic_configs

COMPACTED, TRANSACTIONAL, GROUP = "compacted", "transactional", "readers"
KEYS, TWICE = 2_000, 500
COORDINATOR_TO_BE = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
TIMESTAMP_MS = 1_700_000_000_000


def plain_topics() -> list[str]:
    return [f"plain-{codec}" for codec in CODECS]


def partitions() -> list[tuple[str, int]]:
    """Return every compared partition."""
    return [
        *((topic, partition) for topic in plain_topics() for partition in range(2)),
        *((TRANSACTIONAL, partition) for partition in range(2)),
        (COMPACTED, 0),
    ]


def fill(broker: BrokerProcess) -> None:
    """Write everything; return when the cleaner has done its part."""
    for topic in plain_topics():
        create_topic(broker.bootstrap, topic, partitions=2, segment_bytes="1048576", retention_ms="-1")
    create_topic(broker.bootstrap, TRANSACTIONAL, partitions=2, retention_ms="-1")
    create_topic(
        broker.bootstrap,
        COMPACTED,
        cleanup_policy="compact",
        segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
    )
    for number, codec in enumerate(CODECS):
        with_confluent(broker.bootstrap, codec, f"plain-{codec}", 2_000)
        with_kafka_python(broker.bootstrap, codec, f"plain-{codec}", 500 + number)
    transactions(broker.bootstrap)
    commit_offsets(broker.bootstrap)
    compacted(broker)


def with_confluent(bootstrap: str, codec: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
    for n in range(count):
        value = (b"%s confluent %d " % (topic.encode(), n)) * (1 + n % 40)
        producer.produce(
            topic,
            value,
            b"key-%d" % n,
            partition=n % 2,
            timestamp=TIMESTAMP_MS + n,
            headers=[("number", b"%d" % n), ("null", None)],
        )
    assert producer.flush(30) == 0


def with_kafka_python(bootstrap: str, codec: str, topic: str, count: int) -> None:
    compression = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=5)
    for n in range(count):
        producer.send(topic, b"kafka-python %d" % n, None, [("h", b"v")], n % 2, TIMESTAMP_MS + 10_000 + n)
    producer.flush(30)
    producer.close()


IN_A_TRANSACTION = 100
ENDINGS = (True, False, True, False)
READABLE = sum(IN_A_TRANSACTION * commit + 1 for commit in ENDINGS)
"""Records of `transactions` that read_committed shows."""


def transactions(bootstrap: str) -> None:
    """Write committed, aborted, committed, aborted and plain records to both partitions, with markers between them."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "filler", "linger.ms": 5})
    producer.init_transactions(30)
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for round_number, commit in enumerate(ENDINGS):
        producer.begin_transaction()
        for n in range(IN_A_TRANSACTION):
            word = b"committed" if commit else b"aborted"
            producer.produce(TRANSACTIONAL, b"%s %d-%d" % (word, round_number, n), b"k%d" % n, partition=n % 2)
        producer.flush(30)
        plain.produce(TRANSACTIONAL, b"plain %d" % round_number, partition=round_number % 2)
        plain.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def committed_offsets() -> dict[tuple[str, int], tuple[int, str]]:
    """Return (topic, partition) -> (offset, metadata) of group `readers`."""
    return {(topic, p): (100 * n + p, f"note {n}") for n, topic in enumerate(plain_topics()) for p in range(2)}


def commit_offsets(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    offsets = [
        TopicPartition(topic, partition, offset, metadata)
        for (topic, partition), (offset, metadata) in committed_offsets().items()
    ]
    for tries_left in reversed(range(20)):
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            break
        except KafkaException as error:  # the first commit creates the offsets topic, which has no leader yet
            if error.args[0].code() not in COORDINATOR_TO_BE or not tries_left:
                raise
            time.sleep(0.5)
    consumer.close()


def compacted(broker: BrokerProcess) -> None:
    """Fill the compacted topic as drawn above."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
    plain = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for round_number in range(8):
        chosen = (producer, plain)[round_number % 2]
        for key in range(KEYS):
            value = None if key % 50 == round_number else b"%d-%d " % (round_number, key) + bytes(range(256))
            chosen.produce(COMPACTED, value, b"key-%d" % key, partition=0)
        assert chosen.flush(30) == 0
    wait_until_cleaned(broker, COMPACTED)
    set_topic_configs(broker.bootstrap, COMPACTED, min_compaction_lag_ms="360000000")
    time.sleep(2)  # a pass that was under way may end; the lag holds back the next
    for repeat in range(2):
        for key in range(TWICE):
            plain.produce(COMPACTED, b"twice %d-%d " % (repeat, key) + bytes(2_000), b"twice-%d" % key, partition=0)
    for key in range(KEYS):
        plain.produce(COMPACTED, b"later %d " % key + bytes(2_000), b"key-%d" % key, partition=0)
    assert plain.flush(30) == 0
