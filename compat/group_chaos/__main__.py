"""Fifty consumers of one group join, leave and crash at random for two minutes: partitions' owners, and gaps between them.

Real clients run in ten processes, in both group protocols: consumers leave and new ones join all the time, and now and then a
whole process is killed with kill -9 and another one started. The clients' callbacks are then combined: no partition may have
two owners in one generation, or at one moment. None may be without an owner for longer than the session time-out plus the time
until the other members get the new assignment.
"""

import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ..support.brokers.any_broker import any_broker
from ..support.brokers.process import Broker
from ..support.clients.steps import create_topic
from ..support.suite import Options, Suite, run_suite
from .ownership import Ownership
from .worker import HEARTBEAT_MS, SESSION_MS

PARTITIONS = 60
SECONDS, QUICK_SECONDS = 120, 8
WORKERS, QUICK_WORKERS = 10, 4
CONSUMERS_A_WORKER = 5
CLIENTS = {"classic": ("confluent-kafka", "kafka-python"), "consumer": ("confluent-kafka",)}
# In a classic group no session runs while the group waits for joins: the session of a killed member then starts afterwards.
SESSIONS = {"classic": 2, "consumer": 1}
# After each session the others learn of it with their next heartbeat, then give up, join and sync, each on two shared cores.
HEARD_S = 4.0
BROKER = {
    "group.initial.rebalance.delay.ms": "500",
    "ottla.hold.heartbeats": "true",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


def body(suite: Suite, options: Options) -> None:
    seconds, workers = (QUICK_SECONDS, QUICK_WORKERS) if options.quick else (SECONDS, WORKERS)
    with TemporaryDirectory(prefix="compat-group-chaos-") as folder, any_broker(options, BROKER) as broker:
        for protocol in CLIENTS:
            chaos = Chaos(broker, protocol, workers, Path(folder) / f"{protocol}.events")
            judge(suite, protocol, chaos.run(seconds), chaos.begin_s)


class Chaos:
    """The processes and their kills."""

    def __init__(self, broker: Broker, protocol: str, workers: int, events: Path) -> None:
        self.broker, self.protocol = broker, protocol
        self.chance = random.Random(protocol)
        self.topic = f"chaos-{protocol}"
        self.events = events
        self.numbers = 0
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: list[tuple[float, str]] = []
        self.begin_s = 0.0
        self.worker_count = workers

    def run(self, seconds: float) -> Ownership:
        """Run for `seconds`, counted from when all consumers have joined, and return the ownership."""
        create_topic(self.broker.bootstrap, self.topic, partitions=PARTITIONS)
        try:
            for _ in range(self.worker_count):
                self.start()
            time.sleep(SESSION_MS / 1000)
            self.begin_s = time.time()
            while time.time() < self.begin_s + seconds:
                time.sleep(self.chance.uniform(0.5, 4) * SESSION_MS / 1000)
                self.kill(self.chance.choice(list(self.workers)))
                time.sleep(self.chance.uniform(0, 2))
                self.start()
            return Ownership(self.events, list(self.kills), time.time())
        finally:
            for name in list(self.workers):
                self.kill(name)

    def start(self) -> None:
        self.numbers += 1
        name = f"w{self.numbers}"
        client = CLIENTS[self.protocol][self.numbers % len(CLIENTS[self.protocol])]
        arguments = [name, self.broker.bootstrap, self.topic, self.topic, self.protocol, client]
        command = [sys.executable, "-m", f"{__package__}.worker", *arguments, str(CONSUMERS_A_WORKER), str(self.events)]
        self.workers[name] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self, name: str) -> None:
        worker = self.workers.pop(name)
        worker.kill()
        worker.wait()
        self.kills.append((time.time(), name))


def judge(suite: Suite, protocol: str, ownership: Ownership, begin_s: float) -> None:
    spans = ownership.spans
    generations = {span.generation for span in spans}
    consumers = {span.who for span in spans}
    suite.note(f"{protocol}: {len(consumers)} consumers, {len(ownership.kills)} kills, {len(generations)} generations")
    suite.check(f"{protocol}: there was something to see", len(generations) > 3 and len(spans) > PARTITIONS, len(spans))
    suite.equal(f"{protocol}: owned twice in one generation", [], ownership.owned_twice_in_a_generation())
    suite.equal(f"{protocol}: owned twice at one moment", [], ownership.owned_twice_at_once())
    lost = sum(span.ended_by == "lost" for span in spans)
    gaps = ownership.gaps(PARTITIONS, begin_s)
    longest_s = max((end_s - start_s for start_s, end_s, _ in gaps), default=0)
    unexcused_s = max(map(ownership.unexcused, gaps), default=0)
    suite.note(f"{protocol}: longest time without an owner {longest_s:.1f} s, partitions told to be lost: {lost}")
    allowed_s = SESSIONS[protocol] * (SESSION_MS / 1000 + HEARD_S)
    what = f"{protocol}: none was without an owner for over {allowed_s:.0f} s after a crash"
    suite.check(what, unexcused_s <= allowed_s, f"{unexcused_s:.1f} s")


if __name__ == "__main__":
    sys.exit(run_suite("group_chaos", body, doc=__doc__))
