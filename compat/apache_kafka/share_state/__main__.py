"""The states of share groups in one broker's files, taken over by the other: Apache Kafka and Ottla by turns.

A group's members acquire, accept, release and reject records, and hold some of them when their broker is stopped or killed.
Apache Kafka's `kafka-dump-log` then prints `__share_group_state`, and the suite builds the states from it. The other broker
opens the directory. It must have the same states, and deliver to the same members exactly the unfinished records, with the next
counts.
"""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.share_group_describe import DescribedGroup

from ...support.brokers.apache_kafka import ApacheKafkaProcess, jars
from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import BrokerProcess
from ...support.clients.share_member import ShareMember, client_of
from ...support.clients.steps import create_topic, watermarks
from ...support.suite import NotRunError, Options, Suite, run_suite
from . import queue_work as work
from .queue_work import GONE, MAIN, MOVED, PARTITIONS, STILL, TOPIC, Held, Ledger
from .state_log import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    SNAPSHOT,
    UPDATE,
    Entry,
    Place,
    State,
    dumped_by_kafka,
    dumped_by_ottla,
    in_ottlas_words,
    log_starts,
    logs_of,
    put_together,
)
from .state_log import TOPIC as STATES
from .taken_over import described, judge_deliveries, judge_states

STATE_PARTITIONS = 3
LONG_MS = "600000"
BROKER = {
    # So that nothing is given back because a busy machine was slow.
    "group.share.max.record.lock.duration.ms": LONG_MS,
    "group.share.record.lock.duration.ms": LONG_MS,
    "group.share.max.session.timeout.ms": LONG_MS,
    "group.share.session.timeout.ms": LONG_MS,
    # Snapshots and updates in turns, and pruning that does not keep the suite waiting.
    "share.coordinator.snapshot.update.records.per.snapshot": "7",
    "share.coordinator.cold.partition.snapshot.interval.ms": "3000",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
KAFKA, OTTLA = "Apache Kafka", "Ottla"
STOP, KILL, LAST = "stopped", "killed", "last"
Supervisor = tuple[tuple[str, str], ...]
"""The brokers that serve the directory one after the other, and how each of them ends."""
CHAINS: dict[str, Supervisor] = {
    "Apache Kafka's directory": (
        (KAFKA, STOP),
        (OTTLA, STOP),
        (KAFKA, KILL),
        (OTTLA, KILL),
        (KAFKA, STOP),
        (OTTLA, LAST),
    ),
    "Ottla's records": ((OTTLA, STOP), (KAFKA, STOP), (OTTLA, KILL), (KAFKA, LAST)),
}
CHAIN_QUICK: Supervisor = ((KAFKA, STOP), (OTTLA, STOP), (KAFKA, LAST))
ROUNDS, ROUNDS_QUICK = 4, 2
PRUNED_WITHIN_S = 30


def body(suite: Suite, options: Options) -> None:
    if options.broker:
        raise NotRunError("to start its brokers itself")
    jars()
    chains = {"Apache Kafka's directory": CHAIN_QUICK} if options.quick else CHAINS
    for name, supervisor in chains.items():
        data = Path(mkdtemp(prefix="compat-share-state-"))
        try:
            chain = Chain(suite, options, data / "data", name)
            if supervisor[0][0] == OTTLA:
                chain.make_topics()
            for number, (who, end) in enumerate(supervisor, 1):
                chain.live(number, who, end)
            chain.judge_variety()
        finally:
            if not options.keep:
                shutil.rmtree(data, ignore_errors=True)


@dataclass
class Chain:
    """One directory and its known state."""

    suite: Suite
    options: Options
    data: Path
    name: str
    ledger: Ledger = field(default_factory=Ledger)
    states: dict[Place, State] = field(default_factory=dict)
    member: ShareMember | None = None
    group: DescribedGroup | None = None
    variety: Counter[str] = field(default_factory=Counter)

    def broker(self, who: str) -> BrokerProcess:
        kind = OttlaProcess if who == OTTLA and self.options.against == "ottla" else ApacheKafkaProcess
        return kind(data=self.data, overrides=BROKER, keep=self.options.keep)

    def make_topics(self) -> None:
        """Have Apache Kafka create all topics, and nothing else: its metadata must have them."""
        with self.broker(KAFKA) as kafka:
            create_topic(kafka.bootstrap, TOPIC, partitions=PARTITIONS)
            with client_of(kafka.bootstrap) as client:
                for kind, key in ((0, "g"), (1, "t"), (2, f"g:{'A' * 22}:0")):
                    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
                    while client.ask(request).coordinators[0].error_code:
                        time.sleep(0.1)
            kafka.stop()
        self.suite.equal(f"{self.name}: no state yet", [], logs_of(self.data))

    def live(self, number: int, who: str, end: str) -> None:
        """Run one broker on the directory, from its start to its end; then read what it has left there."""
        what = f"{self.name}, {number}: {who}"
        rng = random.Random(f"{self.name} {number}")
        rounds = ROUNDS_QUICK if self.options.quick else ROUNDS
        with self.broker(who) as broker:
            held: Held = {}
            if self.states:
                self.member = self.judge_taken_over(what, broker, held)
                if end == LAST:
                    self.judge_still(what, broker)
                    return
            elif number == 1 and who == KAFKA:
                create_topic(broker.bootstrap, TOPIC, partitions=PARTITIONS)
            work.write(broker.bootstrap, number)
            work.see(broker.bootstrap, self.ledger)
            self.member = self.member or work.member(broker, MAIN)
            work.take_all(self.member, held)
            work.work(self.member, held, self.ledger, rng, rounds)
            self.have_others(what, broker, number, rng)
            self.suite.check(
                f"{what}: records are in flight at its end", any(held.values()), sum(map(len, held.values()))
            )
            self.group = described(broker.bootstrap, MAIN)
            self.wait_until_pruned(what, broker)
            if end == KILL:
                broker.kill()
            else:
                broker.stop()
            self.member.client.close()
        self.judge_files(f"{what} {end}", is_clean=end == STOP)

    def have_others(self, what: str, broker: BrokerProcess, number: int, rng: random.Random) -> None:
        """Use the groups other than the main one."""
        if number == 1:
            for group in (STILL, GONE):
                self.have_some(broker, group, rng)
            work.delete(broker.bootstrap, GONE)
            self.have_some(broker, MOVED, rng)
        start = 10 * number
        work.move(broker.bootstrap, MOVED, start)
        for partition in range(PARTITIONS):
            self.ledger.done[MOVED, partition].clear()
        held = self.have_some(broker, MOVED, rng)
        first = {partition: (min(counts), set(counts.values())) for partition, counts in held.items()}
        wanted = {
            partition: (min(offset for offset in self.ledger.visible[partition] if offset >= start), {1})
            for partition in range(PARTITIONS)
        }
        self.suite.equal(f"{what}: a moved group starts there with new counts", wanted, first)

    def have_some(self, broker: BrokerProcess, group: str, rng: random.Random) -> Held:
        """Have a member join, acquire all records, acknowledge some and leave; return the records that it got first."""
        one = work.member(broker, group)
        held: Held = {}
        work.take_all(one, held)
        given = {partition: dict(counts) for partition, counts in held.items()}
        work.work(one, held, self.ledger, rng, 1)
        one.leave()
        return given

    def judge_taken_over(self, what: str, broker: BrokerProcess, held: Held) -> ShareMember:
        """Judge the states, and the main group with its member; `held` gets the records that it acquires."""
        assert self.group is not None
        judge_states(self.suite, what, broker.bootstrap, self.states)
        self.suite.equal(
            f"{what}: the group and its member are the same",
            _known(self.group),
            _known(described(broker.bootstrap, MAIN)),
        )
        one = work.member(broker, MAIN, before=self.member)
        assert self.member is not None
        # Each broker hashes the topics differently: a broker that takes a group over assigns again, once.
        goes_on = one.epoch - self.member.epoch in (0, 1)
        self.suite.check(
            f"{what}: the member continues in its epoch", goes_on, f"{self.member.epoch}, then {one.epoch}"
        )
        work.take_all(one, held)
        judge_deliveries(self.suite, what, MAIN, held, self.states, self.ledger.visible, self.ledger.done)
        return one

    def judge_still(self, what: str, broker: BrokerProcess) -> None:
        """Judge the group that has had no requests since the first broker."""
        one = work.member(broker, STILL)
        held: Held = {}
        work.take_all(one, held)
        judge_deliveries(
            self.suite,
            f"{what}, the group of the first",
            STILL,
            held,
            self.states,
            self.ledger.visible,
            self.ledger.done,
        )
        one.leave()

    def wait_until_pruned(self, what: str, broker: BrokerProcess) -> None:
        places = [(STATES, partition) for partition in range(STATE_PARTITIONS)]
        deadline_s = time.monotonic() + PRUNED_WITHIN_S
        while not (starts := [low for low, _ in watermarks(broker.bootstrap, places).values()]) or not any(starts):
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.2)
        self.suite.check(f"{what}: {STATES} is pruned", any(starts), starts)

    def judge_files(self, what: str, *, is_clean: bool) -> None:
        """Check that both tools print the same for each record, and that the records after the log start are complete."""
        starts = log_starts(self.data)
        self.states = {}
        differences: list[object] = []
        count = 0
        logs = logs_of(self.data)
        ottlas = dumped_by_ottla(logs)
        for log, entries in dumped_by_kafka(logs).items():
            theirs = [(entry.offset, in_ottlas_words(entry)) for entry in entries]
            ours = ottlas[log]
            count += len(entries)
            differences += [pair for pair in zip(theirs, ours, strict=False) if pair[0] != pair[1]]
            if len(ours) != len(theirs):
                differences.append(f"{log.parent.name}: {len(theirs)} records became {len(ours)}")
            found = put_together(entries)
            start = starts.get(log.parent.name, 0)
            if is_clean and start:
                rest = put_together(entry for entry in entries if entry.offset >= start)
                self.suite.check(
                    f"{what}: {log.parent.name} from {start} on says all", rest == found, f"{len(entries)} records"
                )
            self.states |= found
            self.count_variety(entries, found)
        self.suite.check(
            f"{what}: kafka-dump-log and ottla dump-log print the same",
            not differences,
            differences[:1] or f"{count} records",
        )

    def count_variety(self, entries: list[Entry], found: dict[Place, State]) -> None:
        said = [entry.said for entry in entries if entry.said]
        self.variety.update(
            {
                "snapshots": sum(entry.kind == SNAPSHOT and entry.said is not None for entry in entries),
                "updates": sum(entry.kind == UPDATE for entry in entries),
                "tombstones": sum(entry.said is None for entry in entries),
                "state epochs behind the first": sum(state.state_epoch > 2 for state in found.values()),
                "leader epochs behind the first": sum(one["leaderEpoch"] > 0 for one in said),
                "gaps between batches": sum(_gaps(state) for state in found.values()),
            }
        )
        for state in found.values():
            for kind, times in state.records.values():
                name = {AVAILABLE: "released", ACKNOWLEDGED: "accepted", ARCHIVED: "archived"}[kind]
                self.variety[name] += 1
                self.variety["released more than once"] += kind == AVAILABLE and times > 1

    def judge_variety(self) -> None:
        """Check that the files contained all cases."""
        for name in (
            *("snapshots", "updates", "tombstones", "released", "released more than once", "accepted", "archived"),
            *("state epochs behind the first", "leader epochs behind the first", "gaps between batches"),
        ):
            self.suite.check(f"{self.name}: there were {name}", self.variety[name] > 0, self.variety[name])
        gone = [place for place in self.states if place.group == GONE]
        self.suite.equal(f"{self.name}: nothing is left of the group that was deleted", [], gone)


def _known(group: DescribedGroup) -> object:
    """Return the parts of a group that outlive its broker."""
    members = [(one.member_id, one.member_epoch, one.subscribed_topic_names, one.assignment) for one in group.members]
    return group.error_code, group.group_state, group.group_epoch, group.assignment_epoch, members


def _gaps(state: State) -> int:
    offsets = sorted(state.records)
    return sum(after - before > 1 for before, after in pairwise(offsets))


if __name__ == "__main__":
    sys.exit(run_suite("apache_kafka.share_state", body, doc=__doc__))
