"""Ten share consumers of Apache Kafka's Java client, while they and the broker are killed with kill -9.

Records are produced all the time. Five processes of two members each (Members.java) acknowledge record by record, release some,
and log the records that they receive and the broker's answers. In the end every record must be acknowledged. No record may
return after it was accepted, and none may be delivered twice unless a member lost its lock.
"""

import argparse
import random
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from ..apache_kafka.suite.runner import compile_java
from ..support.brokers.any_broker import broker_process
from ..support.brokers.apache_kafka import jars
from ..support.brokers.process import BrokerProcess
from ..support.clients.jvms import Jvms
from ..support.clients.steps import create_topic, produce_all
from ..support.deliveries import Deliveries, Event, Place
from ..support.releases import add_release, releases
from ..support.suite import NotRunError, Options, Suite, run_suite

HERE = Path(__file__).parent
GROUP, TOPIC, PARTITIONS = "queue", "work", 4
PROCESSES, QUICK_PROCESSES, MEMBERS_EACH = 5, 3, 2
RECORDS, QUICK_RECORDS = 500_000, 8_000
BROKER_KILLS, QUICK_BROKER_KILLS = 20, 1
LOCK_MS, SESSION_MS = 5_000, 6_000
COUNT_LIMIT = 10
RELEASED_EVERY = 997
QUIET_S, LIMIT_S = 4 * LOCK_MS / 1000, 300
BROKER = {
    "ottla.hold.heartbeats": "true",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.heartbeat.interval.ms": str(SESSION_MS // 6),
    "group.share.min.heartbeat.interval.ms": str(SESSION_MS // 6),
    "group.share.delivery.count.limit": str(COUNT_LIMIT),
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
OFFSET_LINE = re.compile(r"(\d+) (\d+)")
"""The client's log is between what is printed."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1)
    add_release(parser)


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    for version in releases(options):
        suite.note(f"clients {version}")
        with ExitStack() as stack:
            broker = stack.enter_context(broker_process(options, BROKER))
            compile_java([HERE / "Members.java"], jars(version), broker.work / "classes")
            class_path = f"{broker.work / 'classes'}:{jars(version)}/*"
            run = Run(suite, broker, class_path, options.rest.seed, quick=options.quick)
            stack.callback(run.processes.kill_all)
            run.do()


def is_released(place: Place, delivery: Event) -> bool:
    """Whether Members.java releases the record after this delivery."""
    return delivery.more == "1" and place[1] % RELEASED_EVERY == 0


class Run:
    """One queue, from its first record to its last."""

    def __init__(self, suite: Suite, broker: BrokerProcess, class_path: str, seed: int, *, quick: bool) -> None:
        self.suite, self.broker = suite, broker
        self.records = QUICK_RECORDS if quick else RECORDS
        self.kills = QUICK_BROKER_KILLS if quick else BROKER_KILLS
        self.chance = random.Random(seed)
        self.folder = broker.work / "members"
        self.folder.mkdir()
        self.process_count = QUICK_PROCESSES if quick else PROCESSES
        self.processes = Jvms(class_path, "Members", self.process_count, broker.work)
        self.produced = self.lives = 0
        self.deliveries = Deliveries(LOCK_MS, COUNT_LIMIT, is_released=is_released)

    def do(self) -> None:
        started_s = time.monotonic()
        create_topic(self.broker.bootstrap, TOPIC, partitions=PARTITIONS)
        self.processes.said(self.broker.bootstrap, GROUP, TOPIC, "configs")
        for number in range(self.process_count):
            self.start(number)
        victims = ["broker"] * self.kills + ["members"] * self.kills
        self.chance.shuffle(victims)
        each = self.records // (len(victims) + 1)
        for victim in [*victims, None]:
            self.produce(each if victim else self.records - each * len(victims))
            time.sleep(self.chance.uniform(0.5, 3))
            if victim == "broker":
                began_ns = time.monotonic_ns()
                self.broker.kill()
                self.broker.start()
                self.deliveries.away_ns.append((began_ns, time.monotonic_ns()))
            elif victim == "members":
                self.restart(self.chance.randrange(self.process_count))
        self.until_all_is_quiet()
        self.suite.note(
            f"{len(victims)} kills, {self.kills} of them of the broker; {self.records} records in"
            f" {time.monotonic() - started_s:.0f} s"
        )
        self.judge()

    # -- steps

    def start(self, number: int) -> None:
        files = [str(self.folder / f"{self.lives}-{number}-{member}") for member in range(MEMBERS_EACH)]
        self.lives += 1
        self.processes.start(number, self.broker.bootstrap, GROUP, TOPIC, *files)

    def restart(self, number: int) -> None:
        life = self.life_of(number)
        # Before the kill: other members may have its records before `kill` returns, as that waits for the process.
        now_ns = time.monotonic_ns()
        self.deliveries.ended_ns |= {f"{life}-{member}": now_ns for member in range(MEMBERS_EACH)}
        self.processes.kill(number)
        self.start(number)

    def life_of(self, number: int) -> str:
        lives = {path.name.rpartition("-")[0] for path in self.folder.glob(f"*-{number}-*")}
        return max(lives, key=lambda name: int(name.partition("-")[0]), default=f"none-{number}")

    def produce(self, count: int) -> None:
        numbers = range(self.produced, self.produced + count)
        records = ({"value": b"%d" % number, "partition": number % PARTITIONS} for number in numbers)
        produce_all(self.broker.bootstrap, TOPIC, records)
        self.produced += count

    def until_all_is_quiet(self) -> None:
        """Wait until the members have logged nothing for QUIET_S, when no lock is left; their first output is awaited."""
        deadline_s = time.monotonic() + LIMIT_S
        size_bytes, quiet_since_s = -1, time.monotonic()
        while time.monotonic() < deadline_s:
            self.processes.check()
            now_bytes = sum(path.stat().st_size for path in self.folder.iterdir())
            if now_bytes != size_bytes or not now_bytes:
                size_bytes, quiet_since_s = now_bytes, time.monotonic()
            elif time.monotonic() - quiet_since_s > QUIET_S:
                return
            time.sleep(0.5)
        self.suite.check("the queue comes to its end", False, f"not within {LIMIT_S} s")

    # -- results

    def read_events(self) -> None:
        for path in self.folder.iterdir():
            for line in path.read_text().splitlines():
                words = line.split()
                if len(words) != 5:
                    continue  # it was killed while it wrote
                kind, nanoseconds, partition, offset, more = words
                event = Event(int(nanoseconds), kind, path.name, more)
                self.deliveries.events[int(partition), int(offset)].append(event)

    def judge(self) -> None:
        found_at = (
            OFFSET_LINE.fullmatch(line)
            for line in self.processes.said(self.broker.bootstrap, GROUP, TOPIC, "lags").splitlines()
        )
        lags = {int(each[1]): int(each[2]) for each in found_at if each is not None}
        ends = {number: self.records // PARTITIONS for number in range(PARTITIONS)}
        self.suite.equal("lag of the share group", dict.fromkeys(ends, 0), lags)
        self.read_events()
        self.deliveries.judge(self.suite, ends)


if __name__ == "__main__":
    sys.exit(run_suite("share_consumers", body, doc=__doc__, more_arguments=arguments))
