"""Share fetch and acknowledge compared with Apache Kafka: records a second, broker CPU, memory of a million records in flight.

    python -m compat.bench.share [--rounds N] [--records N] [--in-flight N]
    python -m compat.bench.share --quick

One member over one raw connection, closed loop: each ShareFetch acknowledges the records of the one before it. Both brokers
take turns, each round with a group of its own that starts at the beginning of the log.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from confluent_kafka import Producer

from ...support.brokers.apache_kafka import ApacheKafkaProcess
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.share_member import ACCEPT, REJECT, RELEASE, Acquired, Said, ShareMember, configure
from ...support.clients.steps import create_topic
from ...support.machine import Machine
from ...support.suite import NotRunError, Options, Suite, run_suite

RECORDS, QUICK_RECORDS = 200_000, 10_000
IN_FLIGHT, QUICK_IN_FLIGHT = 1_000_000, 20_000
ROUNDS = 5
FEW = 10
"""Records of a fetch in the acquire mode that counts records; otherwise batches are whole."""
LOCKS = 10_000
"""The most of a partition that may be in flight: `group.share.partition.max.record.locks` at its limit."""
BROKER = {
    "group.share.partition.max.record.locks": str(LOCKS),
    "group.share.max.partition.max.record.locks": str(LOCKS),
    "group.share.record.lock.duration.ms": "60000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
MODES: dict[str, tuple[int, Callable[[int], list[int]]]] = {
    "whole batches": (500, lambda _: [ACCEPT]),
    "record by record": (500, lambda count: [REJECT if number % 10 == 9 else ACCEPT for number in range(count)]),
    "ten records a fetch": (FEW, lambda _: [ACCEPT]),
}
"""Name -> records of a fetch, and the function that returns a batch's acknowledgement types for its number of records."""


def member_of(broker: BrokerProcess, group: str, topic: str, partitions: int) -> ShareMember:
    """Return a member with all partitions of the topic, from their beginning on."""
    member = ShareMember(broker.bootstrap, group, topic)
    configure(member.client, group, "earliest")
    member.join(partitions)
    return member


def fetched(member: ShareMember, said: Said, max_records: int, *, is_limit: bool = False) -> list[Acquired]:
    found, refused = member.fetch(said, max_records, is_limit=is_limit)
    assert not refused, refused
    return found


def acknowledge(member: ShareMember, said: Said) -> None:
    refused = member.acknowledge(said)
    assert not refused, refused


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument("--records", type=int, help=f"default {RECORDS}")
    parser.add_argument("--in-flight", type=int, help=f"default {IN_FLIGHT}")


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    wanted = options.rest
    rounds = wanted.rounds or (1 if options.quick else ROUNDS)
    records = wanted.records or (QUICK_RECORDS if options.quick else RECORDS)
    in_flight = wanted.in_flight or (QUICK_IN_FLIGHT if options.quick else IN_FLIGHT)
    machine = Machine()
    with ExitStack() as stack:
        brokers: list[BrokerProcess] = [
            OttlaProcess(overrides=BROKER, keep=options.keep),
            ApacheKafkaProcess(overrides=BROKER, keep=options.keep, heap="512m"),
        ]
        for broker in brokers:
            stack.enter_context(broker)
            create_topic(broker.bootstrap, "queue", partitions=1)
            fill(broker, "queue", 1, records, 100)
        for mode in MODES:
            rounds_of: dict[str, list[Measured]] = {broker.kind: [] for broker in brokers}
            count = records // 10 if MODES[mode][0] == FEW else records
            for number in range(rounds + 1):
                for broker in brokers if number % 2 else brokers[::-1]:
                    found = measured(broker, f"{mode} {number}".replace(" ", "-"), mode, count)
                    if number:  # the first one warms both up
                        rounds_of[broker.kind].append(found)
            for what, field in (
                ("records/s", "speed"),
                ("broker CPU, s for a million records", "cost"),
                ("records a fetch", "records_a_fetch"),
            ):
                values = {kind: [getattr(each, field) for each in found] for kind, found in rounds_of.items()}
                told(suite, f"{mode}: {what}", values)
            every = [each.is_in_order for found in rounds_of.values() for each in found]
            suite.equal(f"{mode}: each record was acquired once, in order", [True] * len(every), every)
        for broker in brokers:
            memory(suite, broker, in_flight)
    suite.note(f"others had {machine.others_part() or 0:.0%} of the machine")


def fill(broker: BrokerProcess, topic: str, partitions: int, count: int, value_bytes: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "linger.ms": 50,
            "batch.num.messages": 500,
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for number in range(count):
        producer.produce(topic, value=b"x" * value_bytes, partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


class Measured(NamedTuple):
    """One round of one broker."""

    speed: float
    """Records a second."""
    cost: float
    """CPU seconds of the broker for a million of them."""
    records_a_fetch: float
    is_in_order: bool
    """Whether each record was acquired once, in order from the first on."""


def measured(broker: BrokerProcess, group: str, mode: str, count: int) -> Measured:
    """Acquire and acknowledge at least `count` records."""
    max_records, types = MODES[mode]
    member = member_of(broker, group, "queue", 1)
    said: Said = {}
    done = fetches = 0
    is_in_order = True
    began_s, cpu_s = time.perf_counter(), broker.cpu_seconds()
    while done < count:
        found = fetched(member, said, max_records, is_limit=max_records == FEW)
        said = {0: [(first, last, types(last - first + 1)) for _, first, last, _ in found]} if found else {}
        fetches += 1
        for _, first, last, _ in found:
            is_in_order = is_in_order and first == done
            done += last - first + 1
    acknowledge(member, said)
    took_s, used_s = time.perf_counter() - began_s, broker.cpu_seconds() - cpu_s
    member.leave()
    return Measured(done / took_s, used_s / done * 1e6, done / fetches, is_in_order)


def memory(suite: Suite, broker: BrokerProcess, in_flight: int) -> None:
    """Measure the broker's memory for `in_flight` records in flight, each with a state of its own."""
    partitions = max(1, in_flight // LOCKS)
    create_topic(broker.bootstrap, "many", partitions=partitions)
    fill(broker, "many", partitions, in_flight, 10)
    member = member_of(broker, "many", "many", partitions)
    before = broker.resident_bytes()
    held = acquire(member, in_flight)
    whole = broker.resident_bytes()
    # Every second record is delivered twice, so that no two neighbours are alike.
    released = 0
    for partition in range(partitions):
        own = [(first, last) for number, first, last, _ in held if number == partition]
        odd = [(at, at, [RELEASE]) for first, last in own for at in range(first, last + 1) if at % 2]
        acknowledge(member, {partition: odd})
        released += len(odd)
    acquire(member, released)
    single = broker.resident_bytes()
    suite.note(
        f"{broker.kind}: {in_flight} records in flight over {partitions} partitions: {before / 1e6:.0f} MB before,"
        f" {whole / 1e6:.0f} MB in batches, {single / 1e6:.0f} MB each by itself: {(single - before) / in_flight:.0f} B a record"
    )
    member.close()


def acquire(member: ShareMember, count: int) -> list[Acquired]:
    """Acquire `count` records, and more up to the end of the last batch."""
    held: list[Acquired] = []
    found = 0
    deadline_s = time.monotonic() + 300
    while found < count:
        now = fetched(member, {}, LOCKS)
        assert time.monotonic() < deadline_s, f"{found} of {count} records were acquired"
        held += now
        found += sum(each.last - each.first + 1 for each in now)
    return held


def told(suite: Suite, what: str, found: dict[str, list[float]]) -> None:
    ours, theirs = (statistics.median(found[kind]) for kind in found)
    spread = " | ".join(f"{statistics.median(each):.4g} ({min(each):.4g}-{max(each):.4g})" for each in found.values())
    suite.note(f"{what}: {' | '.join(found)}: {spread}; {ours / theirs:.2f}")


if __name__ == "__main__":
    sys.exit(run_suite("bench.share", body, doc=__doc__, more_arguments=arguments))
