"""Rounds of kill -9 while clients write and the cleaner works."""

import random
import time

from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import set_topic_configs
from ..support.logs.segment_files import index_faults, work_files
from ..support.suite import Suite
from .model import Model
from .reads import read_and_judge
from .watch import wait_for_work_files
from .writers import start_writers


class Kills:
    """Kills of the broker: after each, no acknowledged record is lost, and the indexes equal rebuilt ones.

    Of four rounds two wait for a `.cleaned` or `.swap` file before they kill, one for a `.swap` file, one for nothing.
    """

    def __init__(
        self, suite: Suite, broker: BrokerProcess, model: Model, topic: str, updates: range, per_round: int
    ) -> None:
        self.suite, self.broker, self.model, self.topic = suite, broker, model, topic
        self.updates, self.per_round = updates, per_round
        self.chance = random.Random(len(updates))
        self.hits = 0

    def run(self, rounds: int) -> None:
        """`rounds` kills, and up to twice as many more until half of `rounds` met work files."""
        set_topic_configs(self.broker.bootstrap, self.topic, min_cleanable_dirty_ratio="0.01")
        self.broker.restart(overrides={"log.cleaner.backoff.ms": "50"})
        done = 0
        while (done < rounds or self.hits < (rounds + 1) // 2) and done < 3 * rounds:
            self.round(done)
            done += 1
        enough = self.hits >= (rounds + 1) // 2
        self.suite.check("enough kills met .cleaned or .swap files", enough, f"{self.hits} of {done}")

    def round(self, number: int) -> None:
        partition_dir = self.broker.partition_dir(self.topic)
        updates = self.updates[number * self.per_round : (number + 1) * self.per_round]
        writers = start_writers(self.broker.bootstrap, self.model, self.topic, updates)
        time.sleep(self.chance.uniform(0.1, 1.0))
        if number % 4 == 1:
            wait_for_work_files(partition_dir, (".swap",), timeout_s=15)
        elif number % 4 != 3:
            wait_for_work_files(partition_dir, (".cleaned", ".swap"), timeout_s=15)
            time.sleep(self.chance.choice([0, 0, 0.002, 0.01, 0.05]))
        self.broker.kill()
        left = work_files(partition_dir)
        for writer in writers:
            writer.halt.set()
        for writer in writers:
            writer.join()
        self.hits += bool(left)
        kinds = sorted({name[name.rindex(".") :] for name in left})
        when = f"kill {number + 1} ({', '.join(kinds) or 'no work files'}, {len(self.model.unknown)} unknown)"
        self.broker.start()
        read_and_judge(self.suite, when, self.broker.bootstrap, self.topic, self.model, self.broker.data)
        self.model.unknown.clear()  # records that are not in the log now never will be: their producers have ended
        self.broker.stop()
        self.suite.equal(f"{when}: index entries describe their segments", [], index_faults(partition_dir)[:5])
        if self.broker.kind == "ottla":
            from .indexes import differences_to_rebuilt

            differences = differences_to_rebuilt(partition_dir)
            self.suite.equal(f"{when}: indexes equal rebuilt ones", [], differences[:5])
        self.broker.start()
