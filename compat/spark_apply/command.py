"""`ottla-spark apply` in a process of its own, watched line by line, and killed at a moment."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import psutil

from .environments import Environment, variables

TIMEOUT_S = 1_800
FIRST_LOAD = 0
"""Number of the batch that begins with the line of a first load."""
CONFS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.task.maxFailures": "12",
    "spark.databricks.delta.snapshotPartitions": "2",  # 50 are for logs of gigabytes
}


def catalog(kind: str, work: str) -> dict[str, str]:
    """Return a catalog `lake` for Iceberg; Delta's tables are paths."""
    if kind != "iceberg":
        return {}
    name = "spark.sql.catalog.lake"
    return {
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "hadoop",
        f"{name}.warehouse": f"{work}/lake",
    }


def table_name(kind: str, work: Path, name: str = "customers") -> str:
    return f"lake.shop.{name}" if kind == "iceberg" else str(work / name)


class Running:
    """A command that has been started: its progress so far, and its end."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = open(log, "ab")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True, start_new_session=True
        )
        self.batches = 0
        self.refusal = ""
        self.on_batch: Callable[[int], None] = lambda number: None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._log.write(line.encode())
            self._log.flush()
            if ": first load of " in line:
                self.on_batch(FIRST_LOAD)
            elif " records" in line and ", up to " in line:
                self.batches += 1
                self.on_batch(self.batches)
            if line.startswith("ottla-spark: "):
                self.refusal = line.strip()

    def kill(self) -> None:
        """kill -9 of the Python and of its JVM at once."""
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for each in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()

    def kill_after(self, batch: int, after_s: float = 0.0) -> None:
        """Kill the command once its n-th batch is in the table, before Spark notes that; or `after_s` later."""

        def on_batch(number: int) -> None:
            if number == batch:
                soon(self.kill, after_s) if after_s else self.kill()

        self.on_batch = on_batch

    def end(self) -> tuple[int, str]:
        """Wait for the end; return (exit code, standard output)."""
        try:
            out, code = self._out(self.process.stdout), self.process.wait(TIMEOUT_S)
        finally:
            self.kill()
        self._reader.join(30)
        self._log.close()
        return code, out

    def _out(self, stream: IO[str] | None) -> str:
        assert stream is not None
        return stream.read()


class Apply:
    """Commands of one environment, from one topic to one table."""

    def __init__(
        self, of: Environment, bootstrap: str, topic: str, work: Path, *, master: str, max_offsets: int
    ) -> None:
        self.of, self.bootstrap, self.topic, self.work, self.master = of, bootstrap, topic, work, master
        self.table = table_name(of.kind.name, work)
        self.max_offsets = max_offsets
        self.schema: str | None = None
        self.jars = ",".join(map(str, of.jars))

    def start(self, *options: str) -> Running:
        command = [str(self.of.python), "-m", "ottla.pipeline.cli", "apply", "--bootstrap", self.bootstrap]
        command += ["--topic", self.topic, "--table", self.table, "--table-format", self.of.kind.name]
        command += ["--key-schema", "customer STRING", "--max-offsets", str(self.max_offsets), "--master", self.master]
        if self.schema is not None:
            command += ["--create", "--value-schema", self.schema]
        confs = {**CONFS, **catalog(self.of.kind.name, str(self.work)), "spark.jars": self.jars}
        for name, value in confs.items():
            command += ["--conf", f"{name}={value}"]
        return Running([*command, *options], variables(self.of), self.work / "commands.log")

    def run(self, *options: str) -> tuple[int, str, str]:
        """Run the command to its end; return (exit code, output, the refusal)."""
        running = self.start(*options)
        code, out = running.end()
        return code, out.strip(), running.refusal

    def killed(self, batch: int, after_s: float = 0.0) -> int:
        """Kill a run, see `kill_after`; return its exit code."""
        running = self.start()
        running.kill_after(batch, after_s)
        return running.end()[0]


class Reader:
    """`reader.py`, for as long as the suite runs."""

    def __init__(self, of: Environment, table: str, work: Path) -> None:
        command = [str(of.python), "-m", "compat.spark_apply.reader", of.kind.name, table, ",".join(map(str, of.jars))]
        with open(work / "reader.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, str(work)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=variables(of),
                text=True,
                start_new_session=True,
            )

    def ask(self, question: str = "rows") -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(question, file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(("{", "[")):
                return json.loads(line)
        raise RuntimeError("the reader has ended; see reader.log")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def kill_executor(processes: list[psutil.Process], rng: random.Random) -> bool:
    """Kill one of the executors among these processes; return whether one was found."""
    found = []
    for each in processes:
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in each.cmdline()):
                found.append(each)
    if not found:
        return False
    with contextlib.suppress(psutil.NoSuchProcess):
        rng.choice(found).kill()
    return True


def soon(action: Callable[[], object], after_s: float) -> threading.Thread:
    def run() -> None:
        time.sleep(after_s)
        action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
