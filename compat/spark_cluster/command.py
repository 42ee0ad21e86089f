"""The console command `ottla-spark`, as a driver of its own process on the cluster, and the moments of its tasks."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import psutil

from .cluster import Cluster

TIMEOUT_S = 900
HOOKS = Path(__file__).with_name("hooks")

CONFS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.network.timeout": "60s",
    # A suite kills more executors in a minute than a cluster loses in a year.
    "spark.task.maxFailures": "12",
    "spark.stage.maxConsecutiveAttempts": "30",
}


class Done(NamedTuple):
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The line with the reason of a failure; empty if there is none."""
        return next((line for line in self.err.splitlines() if line.startswith("ottla-spark: ")), "")


def console_command() -> list[str]:
    """Return the command of the environment we run in; where it is not installed, the module that it calls."""
    beside = Path(sys.executable).with_name("ottla-spark")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "ottla.pipeline.cli"]


class Moments:
    """The folder of `hooks/sitecustomize.py`; emptied by every `clear`."""

    def __init__(self, work: Path) -> None:
        self.directory = work / "moments"
        self.python = work / "python-of-executors"
        self.clear()
        environment = f'PYTHONPATH="{HOOKS}:$PYTHONPATH" OTTLA_COMPAT_MOMENTS="{self.directory}"'
        self.python.write_text(f'#!/bin/sh\n{environment} exec "{sys.executable}" "$@"\n')
        self.python.chmod(0o755)

    def clear(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()

    def order(self, moment: str, *victims: str | int) -> None:
        """Have these victims killed by the first process that reaches the moment, as the hook describes."""
        unfinished = self.directory / "order"
        unfinished.write_text("\n".join(map(str, victims)))
        unfinished.rename(self.directory / f"order.{moment}")

    def reached(self) -> list[tuple[str, str]]:
        """Return each reached moment and the working directory of its executor, in order."""
        path = self.directory / "moments"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(name, place) for name, _, place in (line.partition(" ") for line in lines)]

    def obeyed(self) -> int:
        return len(list(self.directory.glob("obeyed.*")))

    def left(self) -> list[str]:
        """Return the orders whose moment has not been reached."""
        return sorted(path.name.removeprefix("order.") for path in self.directory.glob("order.*"))


class Driver:
    """Starts commands on a cluster."""

    def __init__(self, cluster: Cluster, moments: Moments, work: Path) -> None:
        self.cluster, self.moments, self.work = cluster, moments, work

    def run(self, *arguments: str, confs: Mapping[str, str] | None = None, **environment: str) -> Done:
        """Run a command to its end."""
        return self.end_of(self.start(*arguments, confs=confs, **environment))

    def start(
        self, *arguments: str, confs: Mapping[str, str] | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        words = [*console_command(), *arguments, "--master", self.cluster.master]
        for name, value in (CONFS | dict(confs or {})).items():
            words += ["--conf", f"{name}={value}"]
        return self._open(words, {"PYSPARK_PYTHON": str(self.moments.python)} | environment)

    def _open(self, words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.work,
            env=clean | {"JAVA_HOME": self.cluster.java} | environment,
            start_new_session=True,
        )

    def submit(self, *arguments: str) -> Done:
        """Run the command with spark-submit, which is the only one to get the master's address."""
        spec = find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        script = self.work / "nightly.py"
        script.write_text(f"import sys\nfrom ottla.pipeline.cli import main\nsys.exit(main({list(arguments)!r}))\n")
        words = [str(Path(spec.origin).parent / "bin" / "spark-submit"), "--master", self.cluster.master]
        for name, value in CONFS.items():
            words += ["--conf", f"{name}={value}"]
        words += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
        words += ["--conf", f"spark.pyspark.python={self.moments.python}", str(script)]
        return self.end_of(self._open(words, {}))

    def end_of(self, process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S) -> Done:
        """Wait for it; one that takes too long is killed, and that is its exit code."""
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
        return Done(process.returncode, out, err)


def jvm_of(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the driver's JVM.

    Raises:
        RuntimeError: It has none after a while.
    """
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s and process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                if "org.apache.spark.deploy.SparkSubmit" in child.cmdline():
                    return child
        time.sleep(0.1)
    raise RuntimeError("the command started no JVM")


def run_here(*arguments: str) -> Done:
    """Return a command that needs no cluster: `--master none`."""
    done = subprocess.run(
        [*console_command(), *arguments, "--master", "none"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)
