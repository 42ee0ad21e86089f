"""A snapshot restored into a broker by several processes, while the command, one of its processes and the broker are killed.

The rows are known by arithmetic, and every record that a reader of committed records gets is compared with them, in its order: none
may be missing, none there twice. `--resume` must write what is left, and no more. The full form also measures the rate, with one
process and with one for each processor, and has `ottla-spark verify --bootstrap` compare the two topics.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil

from ..support.brokers.ottla_process import OttlaProcess
from ..support.suite import NotRunError, Options, Suite, run_suite

ROWS, QUICK_ROWS = 10_000_000, 160_000
PARTITIONS = 8
PATIENCE_S = 600.0
GONE_S = 20.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help=f"default {ROWS}, quick {QUICK_ROWS}; a multiple of {PARTITIONS}")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no other broker: it reads the data directory of its own")
    for module, package in (("pyarrow", "'ottla[spark]'"), ("confluent_kafka", "confluent-kafka")):
        if importlib.util.find_spec(module) is None:
            raise NotRunError(f"pip install {package}")
    from .rows import write_rows

    rows = options.rest.rows or (QUICK_ROWS if options.quick else ROWS)
    with tempfile.TemporaryDirectory(prefix="compat-spark-restore-", ignore_cleanup_errors=True) as work:
        snapshot = Path(work, "snapshot")
        write_rows(snapshot, rows, PARTITIONS)
        with OttlaProcess(data=Path(work, "data"), keep=options.keep) as broker:
            restores = Restores(suite, broker, snapshot, rows)
            restores.through_kills("killed")
            restores.without_kills("whole", os.cpu_count() or 1)
            if not options.quick:
                compare_by_verify(suite, broker, "whole", "killed")
                restores.without_kills("by-one", 1)


class Restores:
    """Runs of the command against one broker."""

    def __init__(self, suite: Suite, broker: OttlaProcess, snapshot: Path, rows: int) -> None:
        self.suite, self.broker, self.snapshot, self.rows = suite, broker, snapshot, rows

    def started(self, topic: str, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ottla.pipeline.cli", "restore", str(self.snapshot), "--topic", topic]
        command += ["--bootstrap", self.broker.bootstrap, "--create", "--json", "--quiet", *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def through_kills(self, topic: str) -> None:
        """Restore into a topic while processes are killed, and continue each time."""
        suite = self.suite
        two = ("--resume", "--processes", "2")

        process = self.started(topic, *two)
        self.wait_for(process, topic, 0.2)
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        _, alive = psutil.wait_procs(children, timeout=GONE_S)
        suite.equal("the command is killed: its processes end", [], alive)

        process = self.started(topic, *two)
        self.wait_for(process, topic, 0.4)
        workers = [each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline())]
        workers[0].kill()
        _, errors = process.communicate(timeout=PATIENCE_S)
        suite.equal(
            "a process is killed: the command ends with 6 and one sentence",
            (6, "ottla-spark: killed: a process of the restore was killed; --resume continues\n"),
            (process.returncode, errors),
        )

        process = self.started(topic, *two)
        self.wait_for(process, topic, 0.6)
        self.broker.kill()
        self.broker.start()
        output, errors = process.communicate(timeout=PATIENCE_S)
        is_one_line = process.returncode == 6 and len(errors.splitlines()) == 1
        suite.note(f"the broker is killed: exit code {process.returncode}")
        suite.check(
            "the broker is killed: it continues, or ends with one line", process.returncode == 0 or is_one_line, errors
        )
        if process.returncode:
            output, errors = self.started(topic, *two).communicate(timeout=PATIENCE_S)
        found = json.loads(output) if output else errors
        suite.check(
            "the last call writes what is left", isinstance(found, dict) and 0 < found["records"] < self.rows, found
        )
        output, errors = self.started(topic, *two).communicate(timeout=PATIENCE_S)
        suite.equal(
            "and another one nothing", {"topic": topic, "records": 0, "partitions": PARTITIONS}, json.loads(output)
        )
        self.judge(topic)

    def without_kills(self, topic: str, processes: int) -> None:
        began_s = time.monotonic()
        output, errors = self.started(topic, "--processes", str(processes)).communicate(timeout=PATIENCE_S)
        seconds = time.monotonic() - began_s
        found = json.loads(output) if output else {"records": errors}
        self.suite.equal(f"{processes} processes write all records", self.rows, found["records"])
        self.suite.note(f"{processes} processes: {seconds:.1f} s, {self.rows / seconds:,.0f} records a second")
        self.judge(topic)

    def judge(self, topic: str) -> None:
        """Compare the committed records of each partition with the rows, in their order."""
        from .rows import faults_of, tables_in

        faults = list[str]()
        for partition in range(PARTITIONS):
            faults += faults_of(tables_in(self.broker.data, topic, partition), partition, self.rows // PARTITIONS)
        self.suite.equal(f"{topic}: each partition has its rows once, in their order", [], faults[:3])

    def wait_for(self, process: subprocess.Popen[str], topic: str, share: float) -> None:
        """Wait until the topic's log has this share of the rows, committed or not."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        deadline_s = time.monotonic() + PATIENCE_S
        options = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": "none",
            "isolation.level": "read_uncommitted",
        }
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        with closing(Consumer(options)) as consumer:
            stored = 0
            while stored < share * self.rows:
                if process.poll() is not None or time.monotonic() > deadline_s:
                    raise RuntimeError(f"the restore ended early, with {process.returncode}: {process.communicate()}")
                time.sleep(0.05)
                with suppress(KafkaException):  # before the topic exists
                    stored = sum(consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)


def compare_by_verify(suite: Suite, broker: OttlaProcess, first: str, second: str) -> None:
    from ..apache_kafka.spark.seen import ottla_spark
    from ..spark_connector.jars import connector_jars
    from ..spark_connector.session import spark_session

    what = "verify --bootstrap finds the two topics equal"
    try:
        jars = connector_jars()
    except NotRunError as missing:
        suite.skip(what, str(missing))
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work, spark_session(jars, Path(work)):
        asked = ("--topic", first, "--against-topic", second, "--headers")
        ran = ottla_spark("verify", "--bootstrap", broker.bootstrap, *asked)
    suite.check(what, ran.exit_code == 0 and ran.result["passed"], ran)


if __name__ == "__main__":
    sys.exit(run_suite("spark_restore", body, doc=__doc__, more_arguments=arguments))
