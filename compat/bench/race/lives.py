"""Runs of a broker: its start and idle state, its recovery after kill -9, and the cost of many partitions."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import RawConnection
from ...support.clients.steps import admin, create_topic, watermarks
from ..start.__main__ import measure
from ..table import KAFKA, OTTLA, Row
from .course import Course
from .figures import KFAKE, MOCK, Figure
from .sides import broker_of

READY_TIMEOUT_S = 120.0
RECOVERED_PARTITIONS = 4
"""The number of partitions.

None reaches the size at which a segment is closed and synced, so recovery reads all bytes after a kill.
"""
RECOVERED, MANY = "recovered", "many"
VALUE_BYTES = 10_000
PARTITIONS = (1, 100, 5_000)
METADATA, ASKED = 3, 200
IN_MEMORY = "keeps nothing on disk"


def start(course: Course) -> list[Figure]:
    """Measure starts, as `compat.bench.start` does."""
    rest_s = 2 if course.quick else 5
    rows = {
        "ready": Row("start to ready", "s"),
        "produce": Row("start to first produce", "s"),
        "rss": Row("resident memory at rest", "MB"),
        "cpu": Row("CPU at rest", "%"),
        "stop": Row("stop", "s"),
    }
    sides = [side for side in course.sides if side != MOCK]
    for row in rows.values():
        row.values = {side: [] for side in sides}
    for side in course.turns(sides):
        broker = broker_of(side)
        measure(rows, broker, rest_s)
        broker.dispose()
    return [Figure.of_row(row, {MOCK: "a part of its client"}) for row in rows.values()]


def recovery(course: Course) -> list[Figure]:
    """Filled once, then killed and started again; the records are counted each time."""
    total_bytes = 200_000_000 if course.quick else 2_000_000_000
    what = f"from a start after kill -9 beside {total_bytes / 1e9:.1f} GB until all ends are reported"
    took, cpu = Figure(what, "s"), Figure(f"{what}: broker CPU", "s", is_cpu=True)
    for figure in (took, cpu):
        figure.absent |= {KFAKE: IN_MEMORY, MOCK: IN_MEMORY}
    records = total_bytes // VALUE_BYTES // RECOVERED_PARTITIONS
    for side in course.durable:
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder, broker_of(side, data=Path(folder)) as broker:
            create_topic(broker.bootstrap, RECOVERED, partitions=RECOVERED_PARTITIONS)
            fill(broker, records)
            for _ in range(min(course.rounds, 3)):
                broker.kill()
                began_s = time.perf_counter()
                broker.start()
                ends = told_ends(broker)
                took_s = time.perf_counter() - began_s
                course.suite.equal(f"{side}: nothing is lost", {(0, records)}, set(ends.values()))
                took.note(side, took_s)
                cpu.note(side, broker.cpu_seconds())
    return [took, cpu]


def told_ends(broker: BrokerProcess) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first and next offset of each partition. Apache Kafka serves before it leads all of them again."""
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            return watermarks(broker.bootstrap, [(RECOVERED, number) for number in range(RECOVERED_PARTITIONS)])
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise


def fill(broker: BrokerProcess, records: int) -> None:
    """Produce this number of records into each partition."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.size": 1_000_000})
    value = bytes(range(256)) * (VALUE_BYTES // 256) + bytes(VALUE_BYTES % 256)
    for number in range(records):
        for partition in range(RECOVERED_PARTITIONS):
            while True:
                try:
                    producer.produce(RECOVERED, value, b"%08d" % number, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.05)
    if producer.flush(120):
        raise RuntimeError("records were left unsent")


def started_s(broker: BrokerProcess) -> float:
    """Return the seconds from the command until the broker reports, or answers, that it serves."""
    began_s = time.perf_counter()
    broker.start()
    return time.perf_counter() - began_s


def partitions(course: Course) -> list[Figure]:
    """Measure topics of several partition counts, each on a broker of its own that is then stopped and started again."""
    figures: list[Figure] = []
    for count in PARTITIONS:
        made = Figure(f"{count} partitions: made, all with a leader", "s")
        made_cpu = Figure(f"{count} partitions: broker CPU for making them", "s", is_cpu=True)
        asked = Figure(f"{count} partitions: broker CPU for one Metadata", "us", is_cpu=True)
        memory = Figure(f"{count} partitions: resident memory", "MB")
        again = Figure(f"{count} partitions: start beside them", "s")
        found = [made, made_cpu, asked, memory, again]
        again.absent |= {KFAKE: IN_MEMORY, MOCK: IN_MEMORY}
        for side in course.turns([side for side in course.sides if side != MOCK], min(course.rounds, 3)):
            with broker_of(side) as broker:
                broker.stop_timeout_s = (
                    READY_TIMEOUT_S  # Apache Kafka with 5 000 of them on a busy machine: more than 30 s
                )
                try:
                    made_s, cpu_s = make_many(broker, count)
                except (KafkaException, TimeoutError) as error:
                    course.cannot(side, found, str(error))
                    continue
                made.note(side, made_s)
                made_cpu.note(side, cpu_s)
                asked.note(side, metadata_cpu_us(broker))
                memory.note(side, broker.resident_bytes() / 1e6)
                if side in (KAFKA, OTTLA):
                    broker.stop()
                    again.note(side, started_s(broker))
        for figure in found:
            figure.absent.setdefault(MOCK, "no CreateTopics")
        figures += found
    return figures


def make_many(broker: BrokerProcess, count: int) -> tuple[float, float]:
    """Return seconds, and of them the broker's on a CPU."""
    client = admin(broker.bootstrap)
    client.list_topics(timeout=30)
    began_s, cpu_s = time.perf_counter(), broker.cpu_seconds()
    create_topic(broker.bootstrap, MANY, partitions=count)
    while time.perf_counter() - began_s < READY_TIMEOUT_S:
        found = client.list_topics(MANY, 30).topics[MANY].partitions.values()
        if len(found) == count and all(partition.leader >= 0 for partition in found):
            return time.perf_counter() - began_s, broker.cpu_seconds() - cpu_s
        time.sleep(0.05)
    raise TimeoutError(f"{count} partitions have no leaders after {READY_TIMEOUT_S:.0f} s")


def metadata_cpu_us(broker: BrokerProcess) -> float:
    """Return the broker's CPU for one Metadata 1 of this topic over one connection: the mean of many, after a warm-up."""
    body = struct.pack(f">ih{len(MANY)}s", 1, len(MANY), MANY.encode())
    with RawConnection("127.0.0.1", broker.port, READY_TIMEOUT_S) as connection:
        for _ in range(ASKED):
            connection.request(METADATA, 1, body)
        cpu_s = broker.cpu_seconds()
        for _ in range(ASKED):
            connection.request(METADATA, 1, body)
        return (broker.cpu_seconds() - cpu_s) / ASKED * 1e6
