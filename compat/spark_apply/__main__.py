"""`ottla-spark apply`, from a broker into Delta Lake and Apache Iceberg, while drivers and executors are killed.

Two days of a change feed are written to a topic. After each kill the table must equal the result of the changes up to the
offsets that the table itself records. Each format has the newest Spark that its newest release supports, on a standalone
cluster of two workers.
"""

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..spark_cluster.cluster import Cluster
from ..support.brokers.any_broker import any_broker
from ..support.clients.steps import create_topic
from ..support.suite import NotRunError, Options, Suite, run_suite
from . import schemas
from .command import FIRST_LOAD, Apply, Reader, Running, kill_executor, soon, table_name
from .environments import KINDS, Environment, environment, variables
from .feed import PARTITIONS, SCHEMA, Change, feed, table_after, write

TOPIC = "customers"
KILLED = -9
PARTS = ("kills", "schemas")
BROKER = {"log.cleaner.backoff.ms": "300", "group.initial.rebalance.delay.ms": "0"}


def body(suite: Suite, options: Options) -> None:
    kinds = options.rest.kind or (["delta"] if options.quick else list(KINDS))
    found, missing = dict[str, Environment](), NotRunError("nothing")
    for name in kinds:
        try:
            found[name] = environment(name)
        except NotRunError as error:
            missing = error
            suite.skip(name, f"needs {error}")
    if not found:
        raise missing
    parts = options.rest.part or PARTS
    with any_broker(options, BROKER) as broker, working_directory(options) as work:
        for name, of in found.items():
            place = work / name
            place.mkdir()
            suite.note(f"{of.kind.package}, Spark {of.kind.spark}")
            if "kills" in parts:
                kills(suite, options, of, broker.bootstrap, place)
            if "schemas" in parts:
                schemas.judge(suite, of, broker.bootstrap, place)


def kills(suite: Suite, options: Options, of: Environment, bootstrap: str, place: Path) -> None:
    changes = feed(options.rest.changes or (4_000 if options.quick else 200_000), 400 if options.quick else 6_000)
    topic = f"{TOPIC}-{of.kind.name}"
    # A cleaner that took superseded records away would make what a table holds in between another thing than the model's.
    create_topic(bootstrap, topic, partitions=PARTITIONS, cleanup_policy="compact", min_cleanable_dirty_ratio="1.0")
    judge(suite, of, bootstrap, topic, place, changes, quick=options.quick)


@contextlib.contextmanager
def working_directory(options: Options) -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix="compat-spark-apply-"))
    try:
        yield work
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


class Judge:
    """Compares the table with the model."""

    def __init__(self, suite: Suite, reader: Reader, changes: list[Change]) -> None:
        self.suite, self.reader, self.changes = suite, reader, changes
        self.ends = {each.partition: each.offset + 1 for each in changes}
        self.has_offsets = False

    def now(self, what: str, *, whole: bool = False) -> None:
        found = self.reader.ask()
        offsets = {int(each): offset for each, offset in found["offsets"].items()}
        self.has_offsets = bool(offsets)
        wanted = table_after(self.changes, offsets)
        done = sum(offsets.values())
        self.suite.check(
            f"{what}: the table has the result of the changes",
            found["rows"] == wanted and (found["commits"] > 0) == bool(offsets) and found["chain"],
            f"{len(found['rows'])} rows after {done} of {len(self.changes)} changes, {found['commits']} commits",
        )
        if found["rows"] != wanted:
            differs = [key for key in {*wanted, *found["rows"]} if wanted.get(key) != found["rows"].get(key)]
            self.suite.note(
                f"{len(differs)} keys differ: {[(k, wanted.get(k), found['rows'].get(k)) for k in differs[:2]]}"
            )
        if whole:
            self.suite.equal(f"{what}: all changes are in it", self.ends, offsets)


def judge(
    suite: Suite, of: Environment, bootstrap: str, topic: str, work: Path, changes: list[Change], *, quick: bool
) -> None:
    rng = random.Random(20261125)
    reader = Reader(of, table_name(of.kind.name, work), work)
    name = of.kind.name
    try:
        model = Judge(suite, reader, changes)
        pieces = len(changes) // (4 if quick else 20)  # half of the changes come in batches
        with contextlib.ExitStack() as stack:
            cluster = (
                None
                if quick
                else stack.enter_context(Cluster(work / "cluster", java=of.java, spark_home=of.spark_home))
            )
            master = "local[2]" if cluster is None else cluster.master
            apply = Apply(of, bootstrap, topic, work, master=master, max_offsets=pieces)
            apply.schema = SCHEMA
            write(bootstrap, topic, changes[: len(changes) // 2])
            for number in range(1 if quick else 3):
                code = apply.killed(FIRST_LOAD, after_s=rng.uniform(0.2, 6.0))
                suite.equal(f"{name}: a driver is killed in the midst of a first load", KILLED, code)
                model.now(f"{name}: after kill {number + 1} of a first load")
            # If the last kill came after the commit, there is nothing left to kill.
            code = apply.killed(1) if not model.has_offsets else KILLED
            suite.equal(f"{name}: a driver is killed right after the commit of a first load", KILLED, code)
            model.now(f"{name}: after it")
            write(bootstrap, topic, changes[len(changes) // 2 :])
            apply.schema = None  # from now on the table's columns are it
            code = apply.killed(1)
            suite.equal(
                f"{name}: a driver is killed between the table's commit and Spark's own note of it", KILLED, code
            )
            model.now(f"{name}: after it")
            if cluster is not None:
                for number in range(3):
                    code = apply.killed(1, after_s=rng.uniform(0.2, 6.0))
                    suite.equal(f"{name}: a driver is killed in the midst of a batch", KILLED, code)
                    model.now(f"{name}: after kill {number + 2}")
                running = apply.start()
                gone: list[bool] = []

                def on_batch(number: int) -> None:
                    if number <= 2:
                        soon(lambda: gone.append(kill_executor(list(cluster.processes()), rng)), rng.uniform(0.2, 2.0))

                running.on_batch = on_batch
                code, out = running.end()
                suite.check(
                    f"{name}: executors are killed, and the run ends",
                    code == 0 and any(gone),
                    f"{gone} {running.refusal or out.strip()}",
                )
            else:
                code, out, refusal = apply.run()
                suite.check(f"{name}: the run after it ends", code == 0, refusal or out)
            model.now(f"{name}: at the end", whole=True)
            code, out, refusal = apply.run()
            suite.check(f"{name}: another run has nothing to do", code == 0 and ": 0 records" in out, refusal or out)
            without_jars(suite, apply, name)
        if not quick:
            own_stream(suite, of, bootstrap, topic, work, changes)
    finally:
        reader.close()


def without_jars(suite: Suite, apply: Apply, name: str) -> None:
    """Check the refusal without jars. `schemas` checks other refusals, which need no session of their own."""
    apply.master, apply.jars = "local[1]", ""
    code, _, refusal = apply.run()
    right = code == 1 and "--conf spark.jars.packages=" in refusal
    suite.check(f"{name}: no jars is one line, which says how to have them", right, f"{code} {refusal}")


def own_stream(suite: Suite, of: Environment, bootstrap: str, topic: str, work: Path, changes: list[Change]) -> None:
    """The helper in a program with a checkpoint: killed before Spark notes a batch, run again; its checkpoint lost, run again."""
    name, table = of.kind.name, table_name(of.kind.name, work, "own")
    reader = Reader(of, table, work)
    try:
        model = Judge(suite, reader, changes)
        for what in ("killed", "again", "with its checkpoint lost"):
            checkpoint = work / "checkpoint"
            if what == "with its checkpoint lost":
                shutil.rmtree(checkpoint)
            command = [str(of.python), "-m", "compat.spark_apply.own_stream", name, table, ",".join(map(str, of.jars))]
            command += [str(work), bootstrap, topic, str(checkpoint), SCHEMA, str(len(changes) // 4)]
            running = Running(command, variables(of), work / "own.log")
            if what == "killed":
                running.kill_after(2)
            code, _ = running.end()
            suite.equal(f"{name}: a stream of one's own, {what}: it ends", KILLED if what == "killed" else 0, code)
            model.now(f"{name}: a stream of one's own, {what}", whole=what != "killed")
    finally:
        reader.close()


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this format; may be given again")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be given again")
    parser.add_argument(
        "--changes", type=int, metavar="N", help="number of changes in the feed (default: 200000, 4000 with --quick)"
    )


if __name__ == "__main__":
    sys.exit(run_suite("spark_apply", body, doc=__doc__, more_arguments=arguments))
