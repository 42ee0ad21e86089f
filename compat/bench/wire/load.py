"""One measured load on one broker: write a topic with librdkafka, read it back, and what that cost the broker."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType

from confluent_kafka import Consumer, Producer, TopicPartition

from ...support.brokers.process import BrokerProcess
from ...support.clients.one_batch import one_record_batch
from ...support.clients.raw import RawConnection, produce_body, produce_result
from ...support.clients.steps import admin, create_topic

topic_numbers = count()
Loop = Callable[[], None]


@dataclass(frozen=True)
class Measured:
    produce_mb_per_s: float
    fetch_mb_per_s: float
    produce_cpu_s_per_gb: float
    produce_kernel_s_per_gb: float
    """The kernel's part of it: receiving, writing, sending."""
    fetch_cpu_s_per_gb: float
    fetch_kernel_s_per_gb: float


class Load:
    """A load: `total_bytes` of values of `size` bytes, produced to one partition of a new topic, then fetched.

    `client` are further properties of producer and consumer, e.g. how they connect.
    """

    def __init__(
        self,
        broker: BrokerProcess,
        size: int,
        total_bytes: int,
        codec: str,
        client: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.broker, self.size, self.codec = broker, size, codec
        self.client = client
        self.records = total_bytes // size
        self.topic = f"load-{next(topic_numbers)}"

    def run(self) -> Measured:
        create_topic(self.broker.bootstrap, self.topic)
        gigabytes = self.records * self.size / 1e9
        produce_s, *produce_cpu = self.measure(self.produce)
        fetch_s, *fetch_cpu = self.measure(self.fetch)
        client = admin(self.broker.bootstrap)
        client.delete_topics([self.topic])[self.topic].result(30)
        return Measured(
            gigabytes * 1e3 / produce_s,
            gigabytes * 1e3 / fetch_s,
            *(seconds / gigabytes for seconds in (*produce_cpu, *fetch_cpu)),
        )

    def measure(self, part: Callable[[], Loop]) -> tuple[float, float, float]:
        """Return seconds of the loop that `part` prepares: wall, broker CPU, and the kernel's part of that."""
        loop, broker = part(), self.broker
        cpu_s, kernel_s, started_s = broker.cpu_seconds(), broker.kernel_seconds(), time.perf_counter()
        loop()
        wall_s = time.perf_counter() - started_s
        return wall_s, broker.cpu_seconds() - cpu_s, broker.kernel_seconds() - kernel_s

    def value(self) -> bytes:
        if self.codec == "none":
            return random.Random(1).randbytes(self.size)
        return (b'{"id": 1234567, "name": "some name", "state": "active", "amount": 12.50}' * self.size)[: self.size]

    def produce(self) -> Loop:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": "all",
                "linger.ms": 5,
                "batch.size": 1_000_000,
                "compression.type": self.codec,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 400_000,
                **self.client,
            }
        )
        producer.list_topics(self.topic, 10)
        value, keys = self.value(), [b"%08d" % n for n in range(10_000)]

        def loop() -> None:
            for n in range(self.records):
                while True:
                    try:
                        producer.produce(self.topic, value, keys[n % 10_000], partition=0)
                        break
                    except BufferError:
                        producer.poll(0.05)
                if n % 10_000 == 0:
                    producer.poll(0)
            if producer.flush(120):
                raise RuntimeError("records were left unsent")

        return loop

    def fetch(self) -> Loop:
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.max.bytes": 50_000_000,
                "max.partition.fetch.bytes": 10_000_000,
                "queued.min.messages": 1_000_000,
                "queued.max.messages.kbytes": 400_000,
                **self.client,
            }
        )
        consumer.list_topics(self.topic, 10)

        def loop() -> None:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            got = 0
            while got < self.records:
                got += len(consumer.consume(min(10_000, self.records - got), 10.0))
            consumer.close()

        return loop


def round_trips(broker: BrokerProcess, warm_up: int, measured: int) -> list[float]:
    """Return microseconds of `measured` one-record produce requests on one connection, after `warm_up` others."""
    topic = f"round-trips-{next(topic_numbers)}"
    create_topic(broker.bootstrap, topic)
    body = produce_body(topic, 0, one_record_batch(random.Random(1).randbytes(100), b"key-00001"))
    micros = []
    with RawConnection("127.0.0.1", broker.port) as connection:
        error_code, _ = produce_result(connection.request(0, 3, body), topic)
        if error_code:
            raise RuntimeError(f"produce failed with error {error_code}")
        for _ in range(warm_up + measured):
            started_s = time.perf_counter()
            connection.request(0, 3, body)
            micros.append((time.perf_counter() - started_s) * 1e6)
    return micros[warm_up:]
