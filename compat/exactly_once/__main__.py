"""A transactional copy of 200 000 records while the copier and the broker are killed: each record once, in order.

The copier (copier.py, confluent-kafka) consumes, processes, produces, and commits its position in the transaction. It and the
broker are killed with kill -9 at random moments: some time after one of its commits, so that a kill meets any step of a
transaction. Then the copy, read with read_committed, must have every value once and in order. The group has reached the end, no
transaction is open and no last stable offset is behind.
"""

import random
import subprocess
import sys
import time

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import KafkaAdminClient

from ..support.brokers.any_broker import broker_process
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import admin, create_topic, read_partitions
from ..support.suite import NotRunError, Options, Suite, run_suite
from .copier import PARTITIONS, processed

SOURCE = "source"
RECORDS, QUICK_RECORDS = 200_000, 10_000
BATCH, QUICK_BATCH = 1_000, 200
ROUNDS, QUICK_ROUNDS = 20, 1
KILLS, QUICK_KILLS = 4, 2
LIMIT_S = 240
SESSION_MS = 1_500
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
BROKER = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(SESSION_MS // 5),
    "group.consumer.min.heartbeat.interval.ms": str(SESSION_MS // 5),
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    records, batch = (QUICK_RECORDS, QUICK_BATCH) if options.quick else (RECORDS, BATCH)
    with broker_process(options, BROKER) as broker:
        fill(broker, records)
        for number in range(QUICK_ROUNDS if options.quick else ROUNDS):
            kills = QUICK_KILLS if options.quick else KILLS
            Round(suite, broker, number, records, batch, kills).run()


def fill(broker: BrokerProcess, records: int) -> None:
    """Partition p holds the values `p-0`, `p-1`, …"""
    create_topic(broker.bootstrap, SOURCE, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(records):
        while True:
            try:
                producer.produce(SOURCE, value(number), partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def value(number: int) -> bytes:
    return b"%d-%d" % (number % PARTITIONS, number // PARTITIONS)


class Round:
    """One copy of the whole source, with `kills` kills of the copier and as many of the broker, in any order."""

    def __init__(self, suite: Suite, broker: BrokerProcess, number: int, records: int, batch: int, kills: int) -> None:
        self.suite, self.broker, self.number, self.records, self.batch = suite, broker, number, records, batch
        self.chance = random.Random(number)
        self.name = f"copy-{number}"
        self.protocol = ("classic", "consumer")[number % 2]
        victims = ["copier"] * kills + ["broker"] * kills
        self.chance.shuffle(victims)
        commits = sorted(self.chance.sample(range(records // batch * 9 // 10), len(victims)))
        self.plan = list(zip(commits, victims, strict=True))
        """Number of commits -> the process to kill after them."""
        self.starts = 0
        self.progress = broker.work / f"{self.name}.progress"

    def run(self) -> None:
        started_s = time.monotonic()
        create_topic(self.broker.bootstrap, self.name, partitions=PARTITIONS)
        self.copy()
        seconds = time.monotonic() - started_s
        what = f"round {self.number + 1} ({self.protocol} protocol)"
        self.suite.equal(f"{what}: kills that were left", [], self.plan)
        self.judge(what)
        self.suite.note(f"{what}: copied in {seconds:.0f} s by {self.starts} copiers")
        client = admin(self.broker.bootstrap)
        client.delete_topics([self.name])[self.name].result(30)

    def copy(self) -> None:
        """Start the copier, and again after each kill, until one has reached the end."""
        deadline_s = time.monotonic() + LIMIT_S
        copier = self.start_copier()
        try:
            while copier.poll() != 0:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"the copy did not end within {LIMIT_S} s")
                if copier.returncode is not None:
                    copier = self.start_copier()
                if self.plan and self.progress.stat().st_size > self.plan[0][0]:
                    time.sleep(self.chance.uniform(0, 0.05))
                    _, victim = self.plan.pop(0)
                    if victim == "broker":
                        self.broker.kill()
                        self.broker.start()
                    else:
                        copier.kill()
                        copier.wait()
                time.sleep(0.002)
        finally:
            copier.kill()
            copier.wait()

    def start_copier(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        arguments = [self.broker.bootstrap, SOURCE, self.name, self.name, self.protocol, str(self.batch)]
        with open(self.progress, "ab") as progress:
            return subprocess.Popen([sys.executable, "-m", f"{__package__}.copier", *arguments], stdout=progress)

    def judge(self, what: str) -> None:
        places = [(self.name, partition) for partition in range(PARTITIONS)]
        copies = read_partitions(self.broker.bootstrap, places, isolation="read_committed")
        for place in places:
            expected = [processed(value(number)) for number in range(place[1], self.records, PARTITIONS)]
            found = [record.value for record in copies[place]]
            detail = "" if found == expected else f"{len(found)} records, {len(set(found))} of them different"
            self.suite.check(
                f"{what}: every record once and in order in partition {place[1]}", found == expected, detail
            )
        each = self.records // PARTITIONS
        self.suite.equal(f"{what}: the group is at the end", dict.fromkeys(range(PARTITIONS), each), self.positions())
        self.suite.equal(f"{what}: no transaction is open", [], self.open_transactions())
        stable, end = (ends(self.broker, places, isolation) for isolation in IsolationLevel)
        self.suite.equal(f"{what}: last stable offsets are at the end", stable, end)

    def positions(self) -> dict[int, int]:
        client = admin(self.broker.bootstrap)
        (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.name)]).values()
        return {found.partition: found.offset for found in answer.result(30).topic_partitions}

    def open_transactions(self) -> list[str]:
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        try:
            listed = client.list_transactions(state_filters=OPEN)
        finally:
            client.close()
        return [each.transactional_id for found in listed.values() for each in found]


def ends(broker: BrokerProcess, places: list[tuple[str, int]], isolation: IsolationLevel) -> list[int]:
    """Return the high watermark of each partition, or its last stable offset, as an admin client gets it."""
    client = admin(broker.bootstrap)
    asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    answers = client.list_offsets(asked, isolation_level=isolation)
    return [answers[place].result(30).offset for place in asked]


if __name__ == "__main__":
    sys.exit(run_suite("exactly_once", body, doc=__doc__))
