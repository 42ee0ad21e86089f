"""All kinds of clients at once for an hour, at a fixed pace: are there errors, and does the broker grow?

Real clients produce to topics that are cleaned and truncated, consume in groups of all protocols whose members join, leave and
are killed, use a share group, copy in transactions, create and delete topics, and watch the page. Others send rubbish, and the
broker is restarted again and again within its process. Then: no error without a restart as its cause, and every record in its
place, also after SIGTERM and after kill -9. The process may use a tenth more memory than after ten minutes, but no more
descriptors or threads.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from ottla.protocol.errors import KafkaError

from ..support.brokers.ottla_process import OttlaProcess
from ..support.brokers.process import BrokerProcess, free_port
from ..support.clients.steps import create_topic, read_partitions
from ..support.suite import NotRunError, Options, Suite, run_suite
from .administering import Looking, Supervisor, Topics, Watching
from .consuming import Group, Member, groups
from .copying import Copying, PassingIds
from .load import Load, Scene
from .producing import Keys, Numbers, OneByOne, Reader, readers
from .readings import (
    MEMORY_LIMIT,
    MORE_THREADS,
    Reading,
    Watch,
    grown_descriptors,
    read,
    row,
    then_and_now,
)
from .sharing import COUNT_LIMIT, LOCK_S, LibrarySharers, PassingShareGroups, Queue, Sharer
from .strangers import Strangers
from .streaming import PassingApplications, Streamer
from .topics import BOTH, COMPACTED, COPIED, KEPT, PARTITIONS, SHARED, TOPICS, Ledger, create, missing, stale

MINUTES, QUICK_MINUTES = 60.0, 0.4
JUDGED_MINUTES = 20.0
"""Growth is not judged in a shorter run: data that expire after a minute or two have not reached their level."""
QUICK_LIVES_S = 8.0
REST_S = 12.0
COMPLAINTS_SHOWN = 20
ROWS = 30
CATCH_UP_S, JOIN_S = 60.0, 90.0
SHARERS, STREAMERS = 3, 2
BAD_SIGNS = (" ERROR ", " CRITICAL ", "Traceback")
BROKER = {
    # A producer requests metadata of all topics that it has known: deleted ones would be created again.
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    **{
        f"group.{protocol}.{name}": value
        for protocol in ("share", "streams")
        for name, value in {
            "session.timeout.ms": "6000",
            "min.session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "min.heartbeat.interval.ms": "1000",
        }.items()
    },
    "group.share.record.lock.duration.ms": str(LOCK_S * 1000),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": str(COUNT_LIMIT),
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.segment.bytes": str(1 << 20),
    "share.coordinator.state.topic.prune.interval.ms": "20000",
    "share.coordinator.cold.partition.snapshot.interval.ms": "20000",
    "offsets.topic.num.partitions": "4",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "20000",
    "transaction.state.log.num.partitions": "4",
    "transactional.id.expiration.ms": "60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "20000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000",
    "producer.id.expiration.ms": "60000",
    "log.retention.check.interval.ms": "5000",
    "log.cleaner.backoff.ms": "2000",
}
"""Data expire within minutes, so that ten minutes see each kind created and deleted."""


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("to start Ottla itself")
    if not Path("/proc/self/smaps_rollup").exists():
        raise NotRunError("Linux's /proc")
    minutes = options.rest.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    admin = f"127.0.0.1:{free_port()}"
    broker = OttlaProcess(overrides=BROKER, keep=options.keep, arguments=("--admin", admin))
    with broker:
        Hour(suite, broker, admin, minutes).run()


class Hour:
    """One run, from the creation of the topics to their last check."""

    def __init__(self, suite: Suite, broker: BrokerProcess, admin: str, minutes: float) -> None:
        assert broker.process is not None
        self.suite, self.broker, self.seconds = suite, broker, minutes * 60
        create(broker.bootstrap)
        for topic in (OneByOne.topic, PassingIds.topic):
            create_topic(broker.bootstrap, topic, configs={"retention.ms": "60000", "segment.ms": "30000"})
        time.sleep(REST_S / 4)
        self.at_rest = read(broker.process.pid, 0)
        self.scene, self.ledger = Scene(broker.bootstrap, admin), Ledger()
        self.watch = Watch(broker.process.pid, self.scene.began_s, self.seconds / ROWS, suite.note)

    def run(self) -> None:
        scene = self.scene
        found, consuming = groups(scene)
        self.queue = Queue(scene)
        reading = readers(scene)
        supervisor = Supervisor(scene)
        supervisor.every_s = min(supervisor.every_s, max(self.seconds / 3, QUICK_LIVES_S))
        loads: list[Load] = [
            Numbers(scene, self.ledger, KEPT, 20),
            Numbers(scene, self.ledger, SHARED, 3),
            Keys(scene, self.ledger),
            OneByOne(scene),
            *reading,
            *consuming,
            Copying(scene),
            PassingIds(scene),
            *(Sharer(scene, self.queue, number) for number in range(SHARERS)),
            LibrarySharers(scene, self.queue),
            PassingShareGroups(scene, self.ledger),
            *(Streamer(scene, number) for number in range(STREAMERS)),
            PassingApplications(scene),
            Topics(scene),
            Looking(scene),
            Watching(scene),
            Strangers(scene),
            supervisor,
        ]
        cpu_s, own_s = self.broker.cpu_seconds(), time.process_time()
        self.watch.start()
        for load in loads:
            load.start()
        time.sleep(self.seconds)
        readings = self.watch.end()
        self.stop(loads, reading, found)
        cpu_s, own_s = self.broker.cpu_seconds() - cpu_s, time.process_time() - own_s
        self.suite.note(
            f"{len(scene.restarts)} restarts; CPU: broker {cpu_s / self.seconds:.1%} of a core, clients {own_s / self.seconds:.1%}"
        )
        self.judge_loads(loads)
        self.judge_readers(reading, found)
        self.judge_queue()
        self.judge_process(readings)
        self.judge_rest()
        self.judge_log("at the end")
        for how in ("SIGTERM", "kill -9"):
            self.broker.restart(kill=how == "kill -9")
            self.judge_log(f"after {how}")
        self.judge_output()

    def stop(self, loads: list[Load], reading: list[Reader], found: list[Group]) -> None:
        """Stop the loads, writers first, so that readers can reach the end."""
        last: list[Load] = [
            load for load in loads if isinstance(load, Reader | Member | Copying | Sharer | LibrarySharers)
        ]
        end([load for load in loads if load not in last])
        until_s = time.monotonic() + CATCH_UP_S
        while time.monotonic() < until_s and not self.is_read(reading, found):
            time.sleep(0.5)
        end(last)

    def is_read(self, reading: list[Reader], found: list[Group]) -> bool:
        sent = [self.ledger.acknowledged[KEPT, each] for each in range(PARTITIONS)]
        if any([one.next for one in reader.seen] != sent for reader in seeing(reading, found)):
            return False
        return self.lags() == dict.fromkeys(range(PARTITIONS), 0)

    def lags(self) -> dict[int, int]:
        """Return the lags of the share group."""
        try:
            return self.queue.lags()
        except (OSError, KafkaError) as error:
            self.scene.complain("lags", str(error))
            return {}

    def judge_loads(self, loads: list[Load]) -> None:
        self.suite.note("turns: " + ", ".join(f"{load.name} {load.turns}" for load in loads))
        for load in loads:
            self.suite.check(f"{load.name} took turns", load.turns > 0)
        complaints, unexcused = self.scene.complaints, self.scene.unexcused()
        if complaints:
            kinds = Counter(f"{each.load}: {each.text[:160]}" for each in complaints)
            self.suite.note(f"complaints in all, {len(complaints)}, the most frequent:")
            for kind, count in kinds.most_common(COMPLAINTS_SHOWN):
                self.suite.note(f"  {count} x {kind}")
        for each in unexcused[:COMPLAINTS_SHOWN]:
            self.suite.note(f"not explained, at {each.at_s:.1f} s: {each.load}: {each.text}")
        self.suite.equal("errors that no restart explains", 0, len(unexcused))
        self.suite.equal("records that were refused", [], self.ledger.refused[:5])

    def judge_readers(self, reading: list[Reader], found: list[Group]) -> None:
        """Judge the records that were read while they were written."""
        sent = [self.ledger.acknowledged[KEPT, each] for each in range(PARTITIONS)]
        for reader in seeing(reading, found):
            wrong = [each for one in reader.seen for each in one.wrong]
            self.suite.equal(f"{reader.name}: numbers that do not follow", [], wrong[:5])
            self.suite.equal(f"{reader.name}: read from the first", {0}, {one.first for one in reader.seen})
            self.suite.equal(f"{reader.name}: read to the last", sent, [one.next for one in reader.seen])

    def judge_queue(self) -> None:
        self.suite.equal("lag of the share group", dict.fromkeys(range(PARTITIONS), 0), self.lags())
        deliveries = self.queue.deliveries
        deliveries.away_ns = self.scene.away_ns
        deliveries.judge(self.suite, {each: self.ledger.acknowledged[SHARED, each] for each in range(PARTITIONS)})

    def judge_process(self, readings: list[Reading]) -> None:
        if self.seconds < JUDGED_MINUTES * 60:
            self.suite.note(f"whether it grows is not judged in less than {JUDGED_MINUTES:.0f} minutes")
            return
        then, now = then_and_now(readings)
        ratio = now.resident_kib / then.resident_kib
        told = f"RSS {then.resident_kib / 1024:.1f} MiB, then {now.resident_kib / 1024:.1f} MiB: {ratio:.3f} times"
        told += f"; PSS {then.proportional_kib / 1024:.1f} and {now.proportional_kib / 1024:.1f} MiB"
        self.suite.check(f"memory is at most {MEMORY_LIMIT} times that after ten minutes", ratio <= MEMORY_LIMIT, told)
        self.suite.equal("kinds of descriptors that have become more", {}, grown_descriptors(then, now))
        threads = f"{then.threads:.0f}, then {now.threads:.0f}"
        self.suite.check("threads have not become more", now.threads <= then.threads + MORE_THREADS, threads)

    def judge_rest(self) -> None:
        """Judge the broker after all clients have disconnected: their connections are closed, and no deleted file is open."""
        assert self.broker.process is not None
        time.sleep(REST_S)
        rest = read(self.broker.process.pid, self.scene.now_s())
        for each in (self.at_rest, rest):
            self.suite.note(f"at rest: {row(each)}")
        sockets = self.at_rest.descriptors["socket"], rest.descriptors["socket"]
        self.suite.check("no connection is left when all clients have disconnected", sockets[1] <= sockets[0], sockets)
        gone = {kind: count for kind, count in rest.descriptors.items() if kind.endswith("(deleted)")}
        self.suite.equal("files that are held open and deleted", {}, gone)

    def judge_log(self, when: str) -> None:
        """Judge the contents of the topics, with a new reader."""
        places = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        records = read_partitions(self.broker.bootstrap, places, isolation="read_committed")
        for topic, source in ((KEPT, KEPT), (COPIED, KEPT), (SHARED, SHARED)):
            wrong = {
                partition: what
                for partition in range(PARTITIONS)
                if (what := missing(records[topic, partition], self.ledger.acknowledged[source, partition]))
            }
            self.suite.equal(f"{topic} {when}: every record from its start to its end", {}, wrong)
        for topic in (COMPACTED, BOTH):
            of_topic = [record for partition in range(PARTITIONS) for record in records[topic, partition]]
            self.suite.equal(f"{topic} {when}: the newest of each key", [], stale(of_topic, topic, self.ledger)[:5])

    def judge_output(self) -> None:
        lines = self.broker.output_path.read_text(errors="replace").splitlines()
        bad = [line for line in lines if any(sign in line for sign in BAD_SIGNS)]
        self.suite.equal("errors in the broker's log", [], bad[:5])


def seeing(reading: list[Reader], found: list[Group]) -> list[Reader | Group]:
    """Return the readers that must have seen every number."""
    return [*reading, *found]


def end(loads: list[Load]) -> None:
    for load in loads:
        load.end.set()
    for load in loads:
        load.join(JOIN_S)
        if load.is_alive():
            load.scene.complain(load.name, f"did not end within {JOIN_S:.0f} s")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, metavar="N", help=f"duration; default {MINUTES:.0f}")


if __name__ == "__main__":
    sys.exit(run_suite("mixed_load", body, doc=__doc__, more_arguments=arguments))
