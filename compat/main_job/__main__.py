"""The main job: a compacted topic under real clients, before and after restarts and kill -9.

Writes updates and deletes with kafka-python and confluent-kafka in every codec into one partition with
`cleanup.policy=compact` and `segment.bytes=1048576`, lets the cleaner work, and compares what a consumer from the
beginning sees with a model kept from the acknowledged offsets. Then a restart, then kill -9 during writes and
cleaning, at least half of the times while `.cleaned` or `.swap` files are on disk.
"""

import argparse
import sys
import time

from ..support.brokers.any_broker import any_broker, broker_process
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import create_topic
from ..support.suite import Options, Suite, run_suite
from .kills import Kills
from .model import Model
from .reads import judge_compaction, read_and_judge
from .watch import SegmentCounter, wait_until_the_cleaner_rests
from .writers import write_all

TOPIC = "main-job"
OVERRIDES = {"log.cleaner.backoff.ms": "300"}
TOPIC_CONFIGS = {"cleanup_policy": "compact", "segment_bytes": "1048576"}


class Size:
    """The amount of work; the long figures are those of the project's acceptance, the short ones fit two minutes."""

    def __init__(self, quick: bool, arguments: argparse.Namespace) -> None:
        self.updates = arguments.updates or (40_000 if quick else 2_000_000)
        self.keys = arguments.keys or (2_000 if quick else 100_000)
        self.kills = (1 if quick else 20) if arguments.kills is None else arguments.kills
        self.updates_per_kill = 40_000 if quick else 100_000
        self.sealed = 4 if quick else 50


def body(suite: Suite, options: Options) -> None:
    size = Size(options.quick, options.rest)
    seed = options.rest.seed or int(time.time())
    total = size.updates + 3 * size.kills * size.updates_per_kill
    suite.note(f"seed {seed}: {size.updates} updates over {size.keys} keys, {size.kills} kills")
    model = Model(total, size.keys, int(time.time() * 1000) - total - 60_000, seed)
    if options.broker:
        with any_broker(options) as running:
            write(suite, running.bootstrap, model, size)
            read_and_judge(suite, "after the writes", running.bootstrap, TOPIC, model)
        suite.skip("compaction, restart and kills", "the running broker's files are out of reach")
        return
    with broker_process(options, OVERRIDES) as broker:
        write_and_clean(suite, broker, model, size)
        broker.restart()
        read_and_judge(suite, "after a restart", broker.bootstrap, TOPIC, model, broker.data)
        if size.kills:
            Kills(suite, broker, model, TOPIC, range(size.updates, total), size.updates_per_kill).run(size.kills)


def write(suite: Suite, bootstrap: str, model: Model, size: Size) -> None:
    create_topic(bootstrap, TOPIC, configs=TOPIC_CONFIGS)
    started_s = time.monotonic()
    errors = write_all(bootstrap, model, TOPIC, range(size.updates))
    took_s = time.monotonic() - started_s
    suite.equal("every write was acknowledged", [], errors)
    suite.equal("as many acknowledgements as updates", size.updates, model.acknowledged)
    suite.note(f"{size.updates} updates in {took_s:.0f} s, {size.updates / took_s:.0f} a second, both clients together")


def write_and_clean(suite: Suite, broker: BrokerProcess, model: Model, size: Size) -> None:
    counter = SegmentCounter(broker.partition_dir(TOPIC))
    counter.start()
    write(suite, broker.bootstrap, model, size)
    started_s = time.monotonic()
    rests = wait_until_the_cleaner_rests(broker.data, TOPIC)
    suite.check("the cleaner came to rest", rests, f"{time.monotonic() - started_s:.1f} s after the last write")
    sealed = counter.sealed()
    suite.check(f"at least {size.sealed} segments were sealed", sealed >= size.sealed, sealed)
    reading = read_and_judge(suite, "after cleaning", broker.bootstrap, TOPIC, model, broker.data, second_client=True)
    judge_compaction(suite, reading, broker.partition_dir(TOPIC))


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--updates", type=int, help="updates before the first check")
    parser.add_argument("--keys", type=int)
    parser.add_argument("--kills", type=int, help="rounds of kill -9")
    parser.add_argument("--seed", type=int, help="of the updates; a run prints its own")


if __name__ == "__main__":
    sys.exit(run_suite("main_job", body, doc=__doc__, more_arguments=arguments))
