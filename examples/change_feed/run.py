"""All of the example, from a clone, Python, a JDK 17 or newer and Maven: `python3 examples/change_feed/run.py`.

Makes the project's environment, fetches the connector's jars, starts a broker, writes changes, lets the job make the
table, twice, kills the broker in between, and compares the table with the feed. Exit code 1 when it differs.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
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
FIRST, THEN = 2_000, 500
CHECK = """
import sys, feed, job, table
spark = job.session()
rows = table.KeyedTable(job.Path(sys.argv[1]) / "table", "customer", job.COLUMNS).read(spark).collect()
found = {row.customer: {name: row[name] for name in ("city", "orders", "changed_ms")} for row in rows}
wanted = feed.customers_after(int(sys.argv[2]))
print(f"{len(found)} customers in the table, {len(wanted)} by the feed")
sys.exit("the table differs" if found != wanted or len(rows) != len(found) else 0)
"""


def main() -> None:
    python = python_with_spark()
    fetch_jars()
    with tempfile.TemporaryDirectory(prefix="change-feed-") as work:
        steps = Steps(python, Path(work))
        try:
            steps.start_broker()
            steps.run("feed.py", "--changes", str(FIRST))
            steps.run("job.py", "--out", work, "--show")
            steps.kill_broker()
            steps.start_broker()
            steps.run("feed.py", "--from", str(FIRST), "--changes", str(THEN))
            steps.run("job.py", "--out", work, "--show")
        finally:
            steps.kill_broker()
        subprocess.run([python, "-c", CHECK, work, str(FIRST + THEN)], cwd=HERE, env=steps.environment, check=True)


def python_with_spark() -> str:
    """This Python, if it has all that is needed; else that of the project's environment, made now if need be."""
    if all(importlib.util.find_spec(name) for name in ("ottla", "pyspark", "confluent_kafka")):
        return sys.executable
    subprocess.run(["make", ".venv/.ready"], cwd=CLONE, check=True)
    return str(CLONE / ".venv" / "bin" / "python")


def fetch_jars() -> None:
    """What is there already is left alone."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            sys.exit(
                f"this example needs {program} on the path: Spark runs on a JDK, Maven fetches Spark's Kafka connector"
            )
    for artifact in JARS:
        _, name, version = artifact.split(":")
        if not (CONNECTOR / f"{name}-{version}.jar").exists():
            fetch = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={CONNECTOR}"]
            subprocess.run(fetch, check=True)


class Steps:
    """The programs of the example, with one broker."""

    def __init__(self, python: str, work: Path) -> None:
        self.python, self.data = python, work / "broker"
        self.environment = os.environ | {"CONNECTOR_JARS": str(CONNECTOR), "MASTER": "local[2]"}
        self.broker: subprocess.Popen[str] | None = None
        self.address = "127.0.0.1:0"

    def start_broker(self) -> None:
        ottla = str(Path(self.python).with_name("ottla"))
        command = [ottla, "serve", "--data", str(self.data), "--listener", self.address]
        self.broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.broker.stdout is not None
        for line in self.broker.stdout:
            if line.startswith("ready "):
                self.address = line.split()[1]
                return
        sys.exit("the broker did not start")

    def kill_broker(self) -> None:
        if self.broker is not None:
            self.broker.kill()
            self.broker.wait()
            self.broker = None

    def run(self, program: str, *arguments: str) -> None:
        command = [self.python, program, "--bootstrap", self.address, *arguments]
        subprocess.run(command, cwd=HERE, env=self.environment, check=True)


if __name__ == "__main__":
    main()
