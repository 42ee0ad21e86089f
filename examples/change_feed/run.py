"""Two days of the example, from a clone: `make example`, or `python3 examples/change_feed/run.py [--source kafka|ottla]`.

Makes the project's environment and starts a broker. Each day the feed writes changes, and the job updates the table. At night,
under the running broker, the topic is compacted and a snapshot written. Between the days the broker is killed. Table and
snapshot are compared with the feed each time: exit code 1 if one differs.

The job reads with Spark's own Kafka connector if its jars are there or Maven can fetch them, else the broker's files in
place, which needs only Python and its package index.
"""

import argparse
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLONE = HERE.parents[1]
CONNECTOR = CLONE / "build" / "example-jars"
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
DAYS = {"2026-06-01": (0, 60_000), "2026-06-02": (60_000, 120_000)}
"""Date -> the number of its first change, and the one after its last."""

COLUMNS = "city STRING, orders BIGINT, changed_ms BIGINT"

SHORT_JOBS = {"PYSPARK_SUBMIT_ARGS": "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell"}
"""Options for Spark, which starts four times for a few seconds' work: too short for the JVM's second compiler to pay off."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--source",
        choices=("kafka", "ottla"),
        help="source of the job (default: kafka if its jars are available, else ottla)",
    )
    asked = parser.parse_args()
    python = python_with_spark()
    source = asked.source or chosen_source()
    if source == "kafka" and not has_jars():
        sys.exit("--source kafka needs the connector's jars, and Maven (mvn), which needs a JDK, could not fetch them")
    with tempfile.TemporaryDirectory(prefix="change-feed-") as work:
        example = Example(python, Path(work), source)
        try:
            for date, (start, end) in DAYS.items():
                example.start_broker()
                example.day(date, start, end)
                example.kill_broker()
        finally:
            example.kill_broker()


def python_with_spark() -> str:
    """Return this Python if it has all that is needed; else that of the project's environment, which is made if needed."""
    if all(importlib.util.find_spec(name) for name in ("ottla", "pyspark", "confluent_kafka")):
        return sys.executable
    subprocess.run(["make", ".venv/bin/.ready"], cwd=CLONE, check=True)
    return str(CLONE / ".venv" / "bin" / "python")


def chosen_source() -> str:
    if has_jars():
        return "kafka"
    print("no jars of Spark's Kafka connector, and no Maven to fetch them: the job reads the broker's files in place")
    return "ottla"


def has_jars() -> bool:
    """Return whether all jars exist, or could be fetched now."""
    for artifact in JARS:
        _, name, version = artifact.split(":")
        if (CONNECTOR / f"{name}-{version}.jar").exists():
            continue
        if shutil.which("mvn") is None:
            return False
        fetch = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={CONNECTOR}"]
        if subprocess.run(fetch, check=False, capture_output=True).returncode:
            return False
    return True


class Example:
    """Programs of the example, with one broker. Each runs in a process of its own, as from a timer."""

    def __init__(self, python: str, work: Path, source: str) -> None:
        self.python, self.work, self.source = python, work, source
        self.data = work / "broker"
        self.environment = os.environ | {"OTTLA_SPARK_MASTER": "local[2]", "MASTER": "local[2]", **SHORT_JOBS}
        self.listener, self.admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.broker: subprocess.Popen[str] | None = None
        self.started_s = time.monotonic()

    def day(self, date: str, start: int, end: int) -> None:
        self.run("feed.py", "--bootstrap", self.listener, "--from", start, "--changes", end - start)
        self.apply()
        before = self.log_bytes()
        self.run("nightly.py", self.data, "--admin", self.admin, "--out", self.work / "latest", "--date", date)
        print(f"{before} bytes of log before the night, {self.log_bytes()} after it")
        if self.log_bytes() >= before:
            sys.exit("nothing was compacted")
        self.run("check.py", end, self.work / "table", self.work / "latest" / date)

    def apply(self) -> None:
        """Update the table: `ottla-spark apply`, through Spark's own Kafka connector or from the broker's files."""
        source = ["--bootstrap", self.listener] if self.source == "kafka" else ["--data-dir", self.data]
        jars = ",".join(str(CONNECTOR / jar) for jar in sorted(os.listdir(CONNECTOR))) if self.source == "kafka" else ""
        table = ["--table", self.work / "table", "--table-format", "delta-rs", "--create"]
        schemas = ["--key-schema", "customer STRING", "--value-schema", COLUMNS, "--conf", f"spark.jars={jars}"]
        self.run("-m", "ottla.pipeline.cli", "apply", "--topic", "customers", *source, *table, *schemas)

    def run(self, program: str, *arguments: object) -> None:
        print(
            f"[{time.monotonic() - self.started_s:5.1f} s] {Path(program).name} {' '.join(map(str, arguments[:2]))}",
            flush=True,
        )
        command = [self.python, program, *map(str, arguments)]
        if code := subprocess.run(command, check=False, cwd=HERE, env=self.environment).returncode:
            sys.exit(f"{program}: exit code {code}")

    def log_bytes(self) -> int:
        return sum(log.stat().st_size for log in self.data.glob("customers-*/*.log"))

    def start_broker(self) -> None:
        command = [self.python, "-m", "ottla.server", "serve", "--data", str(self.data)]
        command += ["--listener", self.listener, "--admin", self.admin]
        # Only data that is safe on disk is compacted, and the broker records its end once a minute. These days are shorter.
        command += ["--override", "log.flush.offset.checkpoint.interval.ms=1000"]
        self.broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.broker.stdout is not None
        if not any(line.startswith("ready ") for line in self.broker.stdout):
            sys.exit("the broker did not start")

    def kill_broker(self) -> None:
        """Kill the broker with SIGKILL."""
        if self.broker is not None:
            self.broker.kill()
            self.broker.wait()
            self.broker = None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


if __name__ == "__main__":
    main()
