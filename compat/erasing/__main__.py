"""`ottla erase`, and its report, on data directories of Ottla and of Apache Kafka; see the README."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import Producer

from ottla.server.client.kafka import Kafka
from ottla.storage.disk.os_files import ReadOnlyFiles
from ottla.storage.erasure.places import KeyReport, Verdict, key_bytes
from ottla.storage.erasure.search import Search
from ottla.storage.steps import to_the_end
from support.logs.planted import bytes_on_disk

from ..support.brokers.any_broker import broker_process
from ..support.brokers.process import BrokerProcess
from ..support.suite import Options, Suite, run_suite

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
CLEANS_SOON = {"log.cleaner.backoff.ms": "200", "transaction.max.timeout.ms": "900000"}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "1000",
    "delete.retention.ms": "86400000",
}
TIMEOUT_S = 60
GONE_S = 180


Disk = list[tuple[str, bytes]]
"""Path and bytes of each file."""


def on_disk(data: str) -> Disk:
    """Read all files once. Zeros at the end are left out: a broker that was killed leaves megabytes of them in each index."""
    return [(path, content.rstrip(b"\0")) for path, content in bytes_on_disk(ReadOnlyFiles(), [data])]


@dataclass
class Topic:
    """A topic with planted keys. Each key and each value is random, so no other bytes are equal to it."""

    name: str
    rng: random.Random
    keys: list[bytes] = field(default_factory=list)
    secrets: dict[bytes, bytes] = field(default_factory=dict)
    """Value -> its key."""

    def __post_init__(self) -> None:
        self.keys = [self.rng.randbytes(16).hex().encode() for _ in range(self.rng.randint(1, 4))]

    def fill(self, bootstrap: str) -> None:
        for number in range(self.rng.randint(2, 6)):
            config = {"bootstrap.servers": bootstrap, "compression.type": self.rng.choice(CODECS), "linger.ms": 20}
            is_transactional = self.rng.random() < 0.5
            if is_transactional:
                config |= {"transactional.id": f"{self.name}-{number}", "transaction.timeout.ms": 900_000}
            producer = Producer(config)
            if is_transactional:
                producer.init_transactions(TIMEOUT_S)
                producer.begin_transaction()
            for _ in range(self.rng.randint(1, 30)):
                self._produce(producer)
            producer.flush(TIMEOUT_S)
            if is_transactional and (end := self.rng.random()) < 0.9:
                (producer.commit_transaction if end < 0.5 else producer.abort_transaction)(TIMEOUT_S)
            if self.rng.random() < 0.5:
                time.sleep(0.15)  # the next record rolls

    def _produce(self, producer: Producer) -> None:
        partition = self.rng.randrange(2)
        if self.rng.random() < 0.3:
            producer.produce(
                self.name, self.rng.randbytes(200), key=b"other-%d" % self.rng.randrange(5), partition=partition
            )
            return
        key = self.rng.choice(self.keys)
        secret = None if self.rng.random() < 0.2 else self.rng.randbytes(16).hex().encode()
        if secret is not None:
            self.secrets[secret] = key
        producer.produce(self.name, secret, key=key, partition=partition)

    def report(self, data: str) -> KeyReport:
        now_ms = time.time_ns() // 1_000_000
        return to_the_end(Search(ReadOnlyFiles(), [data], self.name, self.keys, now_ms).steps())

    def occurrences(self, disk: Disk) -> tuple[Counter[tuple[str, bytes]], Counter[tuple[str, bytes]]]:
        """Count keys and values by file, from the bytes on the disk."""
        keys: Counter[tuple[str, bytes]] = Counter()
        values: Counter[tuple[str, bytes]] = Counter()
        for path, content in disk:
            for key in self.keys:
                if count := content.count(key):
                    keys[path, key] = count
            for secret, key in self.secrets.items():
                if count := content.count(secret):
                    values[path, key] += count
        return keys, values


def found_in(report: KeyReport) -> tuple[Counter[tuple[str, bytes]], Counter[tuple[str, bytes]]]:
    keys: Counter[tuple[str, bytes]] = Counter()
    values: Counter[tuple[str, bytes]] = Counter()
    for each in report.places:
        place = each.path, key_bytes(each.key, each.key_encoding)
        keys[place] += each.values + each.tombstones
        values[place] += each.values
    return keys, +values


def body(suite: Suite, options: Options) -> None:
    for against in ["ottla", "apache-kafka"]:
        options.against = against
        for is_killed in [False] if options.quick else [False, True]:
            with broker_process(options, CLEANS_SOON) as broker:
                histories(suite, against, broker, 10 if options.quick else 125, is_killed=is_killed)


def histories(suite: Suite, against: str, broker: BrokerProcess, count: int, *, is_killed: bool) -> None:
    topics = [Topic(f"t{seed}", random.Random(seed)) for seed in range(count)]
    what = f"{against}, {'killed' if is_killed else 'stopped'}"
    with Kafka(broker.bootstrap) as kafka:
        for each in topics:
            kafka.create_topic(each.name, 2, CONFIGS)
    for each in topics:
        each.fill(broker.bootstrap)
    erased = topics[::2]
    for each in erased:
        done = erase(each, "--bootstrap", broker.bootstrap)
        suite.check(f"{what}, {each.name}: erase ends", done.returncode in (0, 1), done.stderr)
    (broker.kill if is_killed else broker.stop)()
    data = os.path.realpath(broker.data)
    disk = on_disk(data)
    for each in topics:
        report = each.report(data)
        suite.equal(f"{what}, {each.name}: places", each.occurrences(disk), found_in(report))
        if not is_killed:
            suite.equal(f"{what}, {each.name}: all was searched", (), report.unread)
    proof = erase(topics[0], "--prove", "--data", data, "--json")
    shown = KeyReport.from_json(json.loads(proof.stdout)["report"])
    suite.equal(f"{what}: the command finds the same", topics[0].report(data).places, shown.places)
    broker.start()
    until_s = time.monotonic() + GONE_S
    with Kafka(broker.bootstrap) as kafka:
        left = list(erased)
        while left and time.monotonic() < until_s:
            for each in left:  # a record rolls the segment
                kafka.produce(each.name, "v", key="other", partition=0)
                kafka.produce(each.name, "v", key="other", partition=1)
            time.sleep(2)
            left = [each for each in left if each.report(data).verdict is Verdict.HELD and not is_held(each, data)]
    suite.equal(f"{what}: topics in which values are left", [], [each.name for each in left])
    broker.stop()
    disk = on_disk(data)
    for each in erased:
        report = each.report(data)
        suite.equal(f"{what}, {each.name}: places in the end", each.occurrences(disk), found_in(report))


def is_held(topic: Topic, data: str) -> bool:
    """Return whether values are left only because a transaction of the history is open."""
    places = topic.report(data).places
    return all(each.why in ("open_transaction", "active_segment") for each in places if each.values) and any(
        each.why == "open_transaction" for each in places
    )


def erase(topic: Topic, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.server", "erase", topic.name, "--keys-from", "-", *options]
    text = "".join(f"{key.decode()}\n" for key in topic.keys)
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


if __name__ == "__main__":
    sys.exit(run_suite("erasing", body, doc=__doc__))
