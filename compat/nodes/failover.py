"""Real clients while nodes stop and start: one producer and two groups of consumers run all the time.

Each node is stopped and started in turn, then all of them at once. A stop is over once every client has made progress without
the node. In the end no acknowledged record may be missing, or be in the log twice (the producer is idempotent).
"""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError, UnknownBrokerIdError
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata

from ..support.brokers.ottla_process import OttlaProcess
from ..support.clients.steps import create_topic, read_partitions
from ..support.suite import Suite

TOPIC, PARTITIONS, NODES = "failover", 6, 3
RECORDS_BETWEEN = 50
"""The records of each partition by which every client must advance before the next node stops or starts."""
PATIENCE_S = 60.0
POLL_MS = 2_000
# Clients find out faster than by default what has changed.
QUICK = {"log_level": 0, "reconnect.backoff.max.ms": 500, "topic.metadata.refresh.interval.ms": 1000}


class Writer(threading.Thread):
    """Writes numbers, some 500 a second, and keeps those that were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **QUICK})
        self.acknowledged: list[bytes] = []
        self.by_partition: Counter[int | None] = Counter()
        self.errors: list[str] = []
        self.done = threading.Event()

    def run(self) -> None:
        numbers = itertools.count()
        while not self.done.is_set():
            for number in itertools.islice(numbers, 10):
                value = b"%d" % number
                self.producer.produce(TOPIC, value, value, on_delivery=self._delivered)
            self.producer.poll(0.02)
        self.producer.flush(PATIENCE_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acknowledged.append(value)
            self.by_partition[message.partition()] += 1
        else:
            self.errors.append(str(error))

    def progress(self) -> int:
        return slowest(self.by_partition)


class Reader(threading.Thread):
    """One consumer of a group that commits what it has read; `seen` counts every value."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.seen: Counter[bytes | None] = Counter()
        self.committed: Counter[int | None] = Counter()
        self.done = threading.Event()

    def progress(self) -> int:
        """Return the number of records read and committed: leaders serve the reads, the coordinator takes the commits."""
        return slowest(self.committed)


class ConfluentReader(Reader):
    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "confluent",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **QUICK,
            }
        )
        consumer.subscribe([TOPIC])
        while not self.done.is_set():
            messages = [message for message in consumer.consume(500, 0.2) if message.error() is None]
            self.seen.update(message.value() for message in messages)
            # While the coordinator moves, commits fail: the next one covers these records too.
            with contextlib.suppress(KafkaException):
                if messages:
                    consumer.commit(asynchronous=False)
                    self.committed.update(message.partition() for message in messages)
        consumer.close()


class KafkaPythonReader(Reader):
    def run(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id="kafka-python",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        # A member that does not know the topic yet joins twice; if a poll's time is up during the second join, 3.0.12
        # forgets the partitions it was given, and reads nothing until the next rebalance. So: know the topic, poll long.
        consumer.partitions_for_topic(TOPIC)
        consumer.subscribe([TOPIC])
        while not self.done.is_set():
            try:
                polled = consumer.poll(POLL_MS)
            except (UnknownBrokerIdError, KafkaConnectionError):
                # Raised out of `poll` (3.0.12): the leader leaves the metadata between its choice and the fetch, or no node listens.
                continue
            for records in polled.values():
                self.seen.update(record.value for record in records)
            offsets = {tp: OffsetAndMetadata(records[-1].offset + 1, "", -1) for tp, records in polled.items()}
            with contextlib.suppress(KafkaPythonError):
                if offsets:
                    consumer.commit(offsets)
                    self.committed.update({tp.partition: len(records) for tp, records in polled.items()})
        consumer.close()


def failover(suite: Suite, broker: OttlaProcess) -> None:
    bootstrap = ",".join(broker.addresses)
    create_topic(bootstrap, TOPIC, partitions=PARTITIONS, replicas=NODES, min_insync_replicas="2")
    writer = Writer(bootstrap)
    readers: dict[str, Reader] = {
        "confluent-kafka": ConfluentReader(bootstrap),
        "kafka-python": KafkaPythonReader(bootstrap),
    }
    clients: dict[str, Callable[[], int]] = {"producer": writer.progress}
    clients |= {name: reader.progress for name, reader in readers.items()}
    for thread in (writer, *readers.values()):
        thread.start()
    wait_for_progress(suite, "before", clients)
    for node_id in range(NODES):
        broker.stop_node(node_id)
        wait_for_progress(suite, f"while node {node_id} is stopped", clients)
        broker.start_node(node_id)
        wait_for_progress(suite, f"after node {node_id} is back", clients)
    for node_id in range(NODES):
        broker.stop_node(node_id)
    for node_id in range(NODES):
        broker.start_node(node_id)
    wait_for_progress(suite, "after all nodes were stopped at once", clients)
    writer.done.set()
    writer.join(PATIENCE_S)
    suite.equal("no record was refused", [], writer.errors[:3])
    acknowledged = Counter(writer.acknowledged)
    for name, reader in readers.items():
        wait_until(partial(has_seen, reader, len(acknowledged)))
        missing = acknowledged.keys() - reader.seen.keys()
        suite.equal(f"{name} in a group read all that was acknowledged", 0, len(missing))
        reader.done.set()
        reader.join(PATIENCE_S)
    stored = read_partitions(bootstrap, [(TOPIC, partition) for partition in range(PARTITIONS)])
    values = Counter(record.value for records in stored.values() for record in records)
    suite.equal("the log holds what was acknowledged, each record once", acknowledged, values)


def has_seen(reader: Reader, count: int) -> bool:
    return len(reader.seen) >= count


def slowest(counts: Counter[int | None]) -> int:
    """Return the count of the partition with the fewest."""
    return min(counts[partition] for partition in range(PARTITIONS))


def wait_for_progress(suite: Suite, when: str, clients: dict[str, Callable[[], int]]) -> None:
    """Wait until every client has advanced by RECORDS_BETWEEN."""
    goals = {name: progress() + RECORDS_BETWEEN for name, progress in clients.items()}
    began = time.monotonic()
    wait_until(lambda: all(clients[name]() >= goal for name, goal in goals.items()))
    stuck = [name for name, goal in goals.items() if clients[name]() < goal]
    suite.check(f"all clients get on {when}", not stuck, stuck or f"within {time.monotonic() - began:.1f} s")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
