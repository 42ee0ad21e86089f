"""Measurements of librdkafka's clients other than bulk produces: transactions, groups, latency from producer to consumer."""

from __future__ import annotations

import functools
import itertools
import statistics
import threading
import time

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ...support.brokers.process import BrokerProcess
from .course import Course
from .figures import Figure
from .sides import make_topic, running

RECORDS_A_TRANSACTION = 10
MEMBERS = 50
JOIN_TIMEOUT_S = 60.0
RECORDS_A_SECOND = 200
LAST_RECORD_TIMEOUT_S = 10.0
NO_DELAY = {"group.initial.rebalance.delay.ms": "0"}
PROTOCOLS = ("classic", "consumer")

numbers = itertools.count()


def transactions(course: Course) -> list[Figure]:
    """Measure the transactions of one producer, one after the other."""
    rate = Figure(f"transactions of {RECORDS_A_TRANSACTION} records", "1/s", more_is_better=True)
    cpu = Figure("broker CPU a transaction", "us", is_cpu=True)
    count = 100 if course.quick else 500

    def turn(broker: BrokerProcess) -> None:
        took_s, cpu_s = commit(broker, count)
        rate.note(broker.kind, count / took_s)
        cpu.note(broker.kind, cpu_s / count * 1e6)

    with running(course.sides) as brokers:
        able = course.taking_part(brokers, [rate, cpu], lambda broker: commit(broker, 20))
        course.in_turns(able, [rate, cpu], turn)
    return [rate, cpu]


def commit(broker: BrokerProcess, count: int) -> tuple[float, float]:
    """Return the seconds for `count` transactions, and the broker's CPU seconds for them.

    The mock cluster's topic has four partitions.
    """
    topic, answers = f"transactions-{next(numbers)}", []
    make_topic(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(20)
    began_s, cpu_s = time.perf_counter(), broker.cpu_seconds()
    for _ in range(count):
        producer.begin_transaction()
        for _ in range(RECORDS_A_TRANSACTION):
            producer.produce(topic, bytes(100), partition=0, on_delivery=lambda error, _: answers.append(error))
        producer.commit_transaction(20)
    took_s, used_s = time.perf_counter() - began_s, broker.cpu_seconds() - cpu_s
    if answers != [None] * (count * RECORDS_A_TRANSACTION):
        raise RuntimeError("records of a transaction were not delivered")
    return took_s, used_s


def groups(course: Course) -> list[Figure]:
    """Measure the time from the first subscription until each member has its one partition."""
    figures: list[Figure] = []
    with running(course.sides, NO_DELAY) as brokers:
        for protocol in PROTOCOLS:
            took = Figure(f"{MEMBERS} consumers join, group protocol {protocol}", "s")
            cpu = Figure(f"{MEMBERS} consumers join, {protocol}: broker CPU", "ms", is_cpu=True)
            figures += [took, cpu]
            able = course.taking_part(brokers, [took, cpu], functools.partial(join, protocol=protocol, members=5))
            turn = functools.partial(joined, protocol=protocol, took=took, cpu=cpu)
            course.in_turns(able, [took, cpu], turn, min(course.rounds, 3))
    return figures


def joined(broker: BrokerProcess, protocol: str, took: Figure, cpu: Figure) -> None:
    took_s, cpu_s = join(broker, protocol, MEMBERS)
    took.note(broker.kind, took_s)
    cpu.note(broker.kind, cpu_s * 1e3)


def join(broker: BrokerProcess, protocol: str, members: int) -> tuple[float, float]:
    """Return seconds, and of them the broker's on a CPU. TimeoutError if not every member gets one partition."""
    topic = f"group-{next(numbers)}"
    make_topic(broker, topic, members)
    client = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "group.protocol": protocol,
        "log_level": 0,
        "topic.metadata.refresh.interval.ms": 300_000,
    }
    consumers = [Consumer(client) for _ in range(members)]
    try:
        began_s, cpu_s = time.perf_counter(), broker.cpu_seconds()
        for consumer in consumers:
            consumer.subscribe([topic])
        while any(len(consumer.assignment()) != 1 for consumer in consumers):
            for consumer in consumers:
                consumer.poll(0)
            if time.perf_counter() - began_s > JOIN_TIMEOUT_S:
                have = sum(len(consumer.assignment()) == 1 for consumer in consumers)
                raise TimeoutError(f"{have} of {members} have one partition after {JOIN_TIMEOUT_S:.0f} s")
            time.sleep(0.002)
        return time.perf_counter() - began_s, broker.cpu_seconds() - cpu_s
    finally:
        closing = [threading.Thread(target=consumer.close) for consumer in consumers]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def end_to_end(course: Course) -> list[Figure]:
    """Measure the time from `produce` of a record of 100 B until the consumer has it, at a fixed pace."""
    figures = [
        Figure(f"end to end, {RECORDS_A_SECOND} records a second: {name}", "us") for name in ("p50", "p99", "p99.9")
    ]
    seconds = 3.0 if course.quick else 10.0

    def turn(broker: BrokerProcess) -> None:
        cuts = statistics.quantiles(ways(broker, seconds), n=1000, method="inclusive")
        for figure, cut in zip(figures, (499, 989, 998), strict=True):
            figure.note(broker.kind, cuts[cut])

    with running(course.sides) as brokers:
        able = course.taking_part(brokers, figures, lambda broker: ways(broker, 1.0))
        course.in_turns(able, figures, turn)
    return figures


def ways(broker: BrokerProcess, seconds: float) -> list[float]:
    """Return the latency of each record in microseconds. RuntimeError if some did not arrive."""
    topic, count = f"way-{next(numbers)}", int(seconds * RECORDS_A_SECOND)
    make_topic(broker, topic)
    client = {"bootstrap.servers": broker.bootstrap}
    producer = Producer({**client, "linger.ms": 0, "acks": "1"})
    consumer = Consumer({**client, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    micros: list[float] = []

    def take() -> None:
        until_s = time.perf_counter() + seconds + LAST_RECORD_TIMEOUT_S
        while len(micros) < count and time.perf_counter() < until_s:
            message: Message | None = consumer.poll(0.2)
            if message is not None and message.error() is None:
                micros.append((time.perf_counter_ns() - int.from_bytes((message.value() or b"")[:8])) / 1e3)

    taking = threading.Thread(target=take)
    taking.start()
    first_s = time.perf_counter() + 0.5  # the consumer's first fetch is under way by then
    for number in range(count):
        if (early_s := first_s + number / RECORDS_A_SECOND - time.perf_counter()) > 0:
            time.sleep(early_s)
        producer.produce(topic, time.perf_counter_ns().to_bytes(8) + bytes(92), partition=0)
        producer.poll(0)
    producer.flush(10)
    taking.join()
    consumer.close()
    if len(micros) != count:
        raise RuntimeError(f"{len(micros)} of {count} records came")
    return micros
