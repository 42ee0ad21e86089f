"""Ten share consumers of Apache Kafka's Java client, while they and the broker are killed with kill -9.

Records come all the while. Five processes of two members each (Members.java) acknowledge record by record, release some, and write
down what they receive and what the broker tells them. In the end every record must be acknowledged, none may come again that was
accepted, and none may come twice but where somebody lost its lock.
"""

import argparse
import random
import re
import sys
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from ..apache_kafka.suite.runner import compile_java, test_jars
from ..support.brokers.any_broker import broker_process
from ..support.brokers.process import BrokerProcess
from ..support.clients.jvms import Jvms
from ..support.clients.steps import create_topic, produce_all
from ..support.suite import NotRunError, Options, Suite, run_suite

HERE = Path(__file__).parent
GROUP, TOPIC, PARTITIONS = "queue", "work", 4
PROCESSES, MEMBERS_EACH = 5, 2
RECORDS, QUICK_RECORDS = 500_000, 20_000
BROKER_KILLS, QUICK_BROKER_KILLS = 20, 2
LOCK_MS, SESSION_MS = 5_000, 6_000
COUNT_LIMIT = 10
QUIET_S, LIMIT_S = 4 * LOCK_MS / 1000, 300
BROKER = {
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
Place = tuple[int, int]
"""Partition and offset."""


class Event(NamedTuple):
    """A line of a member's file."""

    nanoseconds: int
    kind: str
    member: str
    more: str

    @property
    def life(self) -> str:
        """Of the member's process."""
        return self.member.rpartition("-")[0]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1)


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its broker itself")
    jars = test_jars()
    with ExitStack() as stack:
        broker = stack.enter_context(broker_process(options, BROKER))
        compile_java([HERE / "Members.java"], jars, broker.work / "classes")
        run = Run(suite, broker, f"{broker.work / 'classes'}:{jars}/*", options.rest.seed, quick=options.quick)
        stack.callback(run.processes.kill_all)
        run.do()


class Run:
    """One queue, from its first record to its last."""

    def __init__(self, suite: Suite, broker: BrokerProcess, class_path: str, seed: int, *, quick: bool) -> None:
        self.suite, self.broker = suite, broker
        self.records = QUICK_RECORDS if quick else RECORDS
        self.kills = QUICK_BROKER_KILLS if quick else BROKER_KILLS
        self.chance = random.Random(seed)
        self.folder = broker.work / "members"
        self.folder.mkdir()
        self.processes = Jvms(class_path, "Members", PROCESSES, broker.work)
        self.produced = self.lives = 0
        self.ended_ns: dict[str, int] = {}
        """When a life was killed."""
        self.broker_kills_ns: list[int] = []

    def do(self) -> None:
        started_s = time.monotonic()
        create_topic(self.broker.bootstrap, TOPIC, partitions=PARTITIONS)
        self.processes.said(self.broker.bootstrap, GROUP, TOPIC, "configs")
        for number in range(PROCESSES):
            self.start(number)
        victims = ["broker"] * self.kills + ["members"] * self.kills
        self.chance.shuffle(victims)
        each = self.records // (len(victims) + 1)
        for victim in [*victims, None]:
            self.produce(each if victim else self.records - each * len(victims))
            time.sleep(self.chance.uniform(0.5, 3))
            if victim == "broker":
                self.broker_kills_ns.append(time.monotonic_ns())
                self.broker.kill()
                self.broker.start()
            elif victim == "members":
                self.restart(self.chance.randrange(PROCESSES))
        self.until_all_is_quiet()
        self.suite.note(
            f"{len(victims)} kills, {self.kills} of them of the broker; {self.records} records in"
            f" {time.monotonic() - started_s:.0f} s"
        )
        self.judge()

    # -- what is done

    def start(self, number: int) -> None:
        files = [str(self.folder / f"{self.lives}-{number}-{member}") for member in range(MEMBERS_EACH)]
        self.lives += 1
        self.processes.start(number, self.broker.bootstrap, GROUP, TOPIC, *files)

    def restart(self, number: int) -> None:
        life = self.life_of(number)
        self.processes.kill(number)
        self.ended_ns[life] = time.monotonic_ns()
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
        """All are accepted; or nothing has come for so long that nobody holds a lock any more."""
        deadline_s = time.monotonic() + LIMIT_S
        size_bytes, quiet_since_s = -1, time.monotonic()
        while time.monotonic() < deadline_s:
            self.processes.check()
            now_bytes = sum(path.stat().st_size for path in self.folder.iterdir())
            if now_bytes != size_bytes:
                size_bytes, quiet_since_s = now_bytes, time.monotonic()
            elif time.monotonic() - quiet_since_s > QUIET_S:
                return
            time.sleep(0.5)
        self.suite.check("the queue comes to its end", False, f"not within {LIMIT_S} s")

    # -- what came of it

    def events(self) -> dict[Place, list[Event]]:
        found: dict[Place, list[Event]] = defaultdict(list)
        for path in self.folder.iterdir():
            for line in path.read_text().splitlines():
                words = line.split()
                if len(words) != 5:
                    continue  # it was killed while it wrote
                kind, nanoseconds, partition, offset, more = words
                found[int(partition), int(offset)].append(Event(int(nanoseconds), kind, path.name, more))
        return {place: sorted(events) for place, events in found.items()}

    def judge(self) -> None:
        found_at = (
            OFFSET_LINE.fullmatch(line)
            for line in self.processes.said(self.broker.bootstrap, GROUP, TOPIC, "lags").splitlines()
        )
        lags = {int(each[1]): int(each[2]) for each in found_at if each is not None}
        ends = {number: self.records // PARTITIONS for number in range(PARTITIONS)}
        self.suite.equal("lag of the share group", dict.fromkeys(ends, 0), lags)
        events = self.events()
        places = [(partition, offset) for partition, end in ends.items() for offset in range(end)]
        self.suite.equal("records that were never received", [], [each for each in places if each not in events][:5])
        accepted = {place for place, found in events.items() if any(each.kind == "A" for each in found)}
        unknown = [place for place in places if place not in accepted]
        lost = [place for place in unknown if not self.may_be_accepted(events.get(place, []))]
        self.suite.equal(
            "records that nobody accepted, nor may have", [], [(place, events.get(place)) for place in lost][:3]
        )
        again: list[object] = []
        unexplained: list[object] = []
        causes: Counter[str] = Counter()
        for place, found in events.items():
            first_accepted_ns = min((each.nanoseconds for each in found if each.kind == "A"), default=None)
            received = [each for each in found if each.kind == "R"]
            if first_accepted_ns is not None and received[-1].nanoseconds > first_accepted_ns:
                again.append((place, found))
            for one, following in pairwise(received):
                cause = self.cause(found, one, following)
                causes[cause or "none"] += 1
                if cause is None:
                    unexplained.append((place, found))
        self.suite.equal("records that came again after they were accepted", [], again[:3])
        self.suite.equal("records that came twice although nobody had lost its lock", [], unexplained[:3])
        refused = Counter(each.more for found in events.values() for each in found if each.kind == "F")
        deliveries = sum(each.kind == "R" for found in events.values() for each in found)
        self.suite.note(
            f"{deliveries} deliveries of {self.records} records; came again because of: {dict(causes) or 'nothing'};"
            f" acknowledgements refused: {dict(refused) or 'none'}; accepted by who was killed before it could say so: {len(unknown)}"
        )

    def may_be_accepted(self, found: list[Event]) -> bool:
        """Whether who received it last may have been told, and been killed before it wrote that down."""
        received = [each for each in found if each.kind == "R"]
        if not received or int(received[-1].more) >= COUNT_LIMIT:
            return False
        told = [
            each for each in found if each.member == received[-1].member and each.nanoseconds > received[-1].nanoseconds
        ]
        return (not told and received[-1].life in self.ended_ns) or any(each.kind == "F" for each in told)

    def cause(self, found: list[Event], one: Event, following: Event) -> str | None:
        """Why a record came a second time."""
        # Who released it is told so when somebody else may have it already.
        told = [each for each in found if each.member == one.member and each.nanoseconds > one.nanoseconds]
        told = told[: next((at for at, each in enumerate(told) if each.kind == "R"), len(told))]
        if any(each.kind == "X" for each in told):
            return "released"
        if any(one.nanoseconds <= at <= following.nanoseconds for at in self.broker_kills_ns):
            return "broker killed"
        if self.ended_ns.get(one.life, following.nanoseconds) < following.nanoseconds:
            return "member killed"
        if any(each.kind == "F" for each in told):
            return "acknowledgement refused"
        if following.nanoseconds - one.nanoseconds >= LOCK_MS * 1_000_000:
            return "lock timed out"
        return None


if __name__ == "__main__":
    sys.exit(run_suite("share_consumers", body, doc=__doc__, more_arguments=arguments))
