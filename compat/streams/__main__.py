"""A Kafka Streams application on the streams protocol (KIP-1071), exactly once, while its instances and the broker are killed.

Two instances of two threads each (Application.java, Apache Kafka's own library) count words and join orders with a table,
with standbys, in transactions. During that instances and the broker are killed with kill -9, and their changelogs are
compacted. In the end every word must have its count and every order its customer, once; no count may be repeated.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from ..apache_kafka.suite.runner import compile_java
from ..support.brokers.any_broker import broker_process
from ..support.brokers.apache_kafka import jars
from ..support.brokers.process import BrokerProcess
from ..support.clients.jvms import Jvms
from ..support.clients.steps import admin, create_topic, produce_all, read_partitions
from ..support.releases import add_release, releases
from ..support.suite import NotRunError, Options, Suite, run_suite

HERE = Path(__file__).parent
APPLICATION = "words"
PARTITIONS = 4
INSTANCES = 2
LINES, QUICK_LINES = 60_000, 6_000
KILLS, QUICK_KILLS = 8, 2
CUSTOMERS = 200
LIMIT_S = 300
SESSION_MS = 6_000
BROKER = {
    "ottla.hold.heartbeats": "true",
    "group.streams.num.standby.replicas": "1",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.heartbeat.interval.ms": str(SESSION_MS // 6),
    "group.streams.min.heartbeat.interval.ms": str(SESSION_MS // 6),
    "log.cleaner.backoff.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
SOURCES = ("text", "customers", "orders", f"{APPLICATION}-counts-repartition")
CHANGELOG = f"{APPLICATION}-counts-changelog"


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    for version in releases(options):
        suite.note(f"Kafka Streams {version}")
        folder = jars(version, HERE / "kafka_streams.pom.xml")
        with ExitStack() as stack:
            broker = stack.enter_context(broker_process(options, BROKER))
            compile_java([HERE / "Application.java"], folder, broker.work / "classes")
            run = Run(suite, broker, f"{broker.work / 'classes'}:{folder}/*", quick=options.quick)
            stack.callback(run.instances.kill_all)
            run.do()


class Run:
    """One application, from its first record to its last."""

    def __init__(self, suite: Suite, broker: BrokerProcess, class_path: str, *, quick: bool) -> None:
        self.suite, self.broker = suite, broker
        self.lines, self.kills = (QUICK_LINES, QUICK_KILLS) if quick else (LINES, KILLS)
        self.chance = random.Random(1)
        self.instances = Jvms(class_path, "Application", INSTANCES, broker.work)
        self.words: Counter[str] = Counter()
        self.orders: dict[str, str] = {}

    def do(self) -> None:
        started_s = time.monotonic()
        for topic in ("text", "customers", "orders", "counted", "joined"):
            create_topic(self.broker.bootstrap, topic, partitions=PARTITIONS)
        self.produce("customers", [(f"k{n}", f"C{n}") for n in range(CUSTOMERS)])
        for number in range(INSTANCES):
            self.start(number)
        # An order that is processed before its customer would find no customer to join with.
        self.until("the table is read", lambda: self.lag(("customers",)) == 0)
        victims = ["instance"] * self.kills + ["broker"] * (self.kills // 2)
        self.chance.shuffle(victims)
        each = self.lines // (len(victims) + 1)
        for victim in [*victims, None]:
            self.feed(each)
            time.sleep(self.chance.uniform(0.5, 3))
            if victim == "broker":
                self.broker.kill()
                self.broker.start()
            elif victim == "instance":
                self.restart(self.chance.randrange(INSTANCES))
        self.until("all is read", lambda: self.lag(SOURCES) == 0)
        self.suite.note(f"{len(victims)} kills, {sum(self.words.values())} words: {time.monotonic() - started_s:.0f} s")
        self.judge()

    def start(self, number: int) -> None:
        folder = self.broker.work / f"state-{number}"
        folder.mkdir(exist_ok=True)
        self.instances.start(number, self.broker.bootstrap, APPLICATION, str(folder))

    def restart(self, number: int) -> None:
        self.instances.kill(number)
        self.start(number)

    def feed(self, count: int) -> None:
        lines, orders = [], []
        for _ in range(count):
            number = sum(self.words.values())
            line = f"all w{number % 97} x{number % 1_009}"
            self.words.update(line.split())
            lines.append((str(number), line))
            if number % 5 == 0:
                key = f"k{number % CUSTOMERS}"
                self.orders[f"o{number}"] = key
                orders.append((key, f"o{number}"))
        self.produce("text", lines)
        self.produce("orders", orders)

    def produce(self, topic: str, records: list[tuple[str, str]]) -> None:
        produce_all(self.broker.bootstrap, topic, ({"key": key, "value": value} for key, value in records))

    def lag(self, topics: tuple[str, ...]) -> int:
        """Return the number of records of these topics that the group has not committed yet."""
        client = admin(self.broker.bootstrap)
        (answer,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(APPLICATION)]).values()
        committed = {(one.topic, one.partition): one.offset for one in answer.result(30).topic_partitions}
        asked = {TopicPartition(topic, index): OffsetSpec.latest() for topic in topics for index in range(PARTITIONS)}
        ends = {
            (one.topic, one.partition): future.result(30).offset for one, future in client.list_offsets(asked).items()
        }
        return sum(max(0, end - max(0, committed.get(place, 0))) for place, end in ends.items())

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while True:
            try:
                if is_so():
                    return
            except KafkaException:
                pass  # The broker is away, or a topic is not there yet.
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"not within {LIMIT_S} s: {what}")
            self.instances.check()
            time.sleep(0.5)

    def judge(self) -> None:
        counted = self.read("counted", isolation="read_committed")
        last = dict(counted)
        wrong = {
            word: (last.get(word), str(count)) for word, count in self.words.items() if last.get(word) != str(count)
        }
        self.suite.equal("words with a wrong count", {}, wrong)
        rows: dict[str, list[int]] = {}
        for word, count in counted:
            rows.setdefault(word, []).append(int(count))
        twice = [word for word, counts in rows.items() if counts != list(range(1, len(counts) + 1))]
        self.suite.equal("words that were counted twice, or not one after the other", [], twice)
        joined = Counter(value for _, value in self.read("joined", isolation="read_committed"))
        expected = Counter(f"{order}@C{key[1:]}" for order, key in self.orders.items())
        self.suite.equal("orders that were not joined", [], sorted(expected - joined)[:5])
        self.suite.equal("orders that were joined twice", [], sorted(joined - expected)[:5])
        self.until("changelogs are cleaned", lambda: self.kept_of_changelog() < self.changes() // 2)
        self.suite.note(f"changelog: {self.kept_of_changelog()} records kept of {self.changes()}")
        kept = {key: int.from_bytes(value[-8:], "big") for key, value in self.changelog()}
        self.suite.equal("changelog after compaction", dict(self.words), kept)

    def changes(self) -> int:
        """Return the number of changes: each word that was read changed its count once."""
        return sum(self.words.values())

    def kept_of_changelog(self) -> int:
        return len(self.changelog())

    def changelog(self) -> list[tuple[str, bytes]]:
        places = [(CHANGELOG, index) for index in range(PARTITIONS)]
        read = read_partitions(self.broker.bootstrap, places, isolation="read_committed")
        return [
            ((one.key or b"").decode(), one.value)
            for records in read.values()
            for one in records
            if one.value is not None
        ]

    def read(self, topic: str, *, isolation: str) -> list[tuple[str, str]]:
        places = [(topic, index) for index in range(PARTITIONS)]
        read = read_partitions(self.broker.bootstrap, places, isolation=isolation)
        return [((one.key or b"").decode(), (one.value or b"").decode()) for rows in read.values() for one in rows]


if __name__ == "__main__":
    sys.exit(run_suite("streams", body, doc=__doc__, more_arguments=add_release))
