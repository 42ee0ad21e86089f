"""Starts `ottla serve` as a user would, in its own process, and waits for its `ready` line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from ..suite import NotRunError
from .process import START_TIMEOUT_S, STOP_TIMEOUT_S, BrokerProcess, LineReader


def ottla_command() -> list[str]:
    """Return the console command of the environment we run in, else the one on the path."""
    beside = Path(sys.executable).with_name("ottla")
    found = str(beside) if beside.exists() else shutil.which("ottla")
    if not found:
        raise NotRunError("the command `ottla` (install the project into this environment)")
    return [found]


class OttlaProcess(BrokerProcess):
    """`ottla serve` on a temporary data directory and a free port.

    Args:
        profile: `kafka` (Apache Kafka's defaults, what `serve` runs) or `dev`.
        nodes: How many broker ids the process serves.
        arguments: Further arguments of `ottla serve`, e.g. `["--config", FILE]`.
    """

    kind = "ottla"
    stdin_source = subprocess.PIPE

    def __init__(
        self,
        *,
        data: Path | None = None,
        overrides: dict[str, str] | None = None,
        keep: bool = False,
        profile: str | None = None,
        nodes: int = 1,
        arguments: tuple[str, ...] = (),
    ) -> None:
        super().__init__(data=data, overrides=overrides, keep=keep)
        self.profile, self.nodes, self.arguments = profile, nodes, arguments

    def command(self) -> list[str]:
        listener = self.bootstrap if self.addresses else "127.0.0.1:0"
        command = [*ottla_command(), "serve", "--data", str(self.data), "--listener", listener, *self.arguments]
        if self.profile:
            command += ["--profile", self.profile]
        if self.nodes != 1:
            command += ["--nodes", str(self.nodes)]
        of_all_suites = dict(pair.split("=", 1) for pair in os.environ.get("OTTLA_COMPAT_OVERRIDES", "").split())
        for name, value in (of_all_suites | self.overrides).items():
            command += ["--override", f"{name}={value}"]
        return command

    def stdout_target(self, output: IO[bytes]) -> int | IO[bytes]:
        return subprocess.PIPE

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.output = LineReader(process.stdout, self.output_path)
        self.output.start()
        line = self.output.line("ready ", START_TIMEOUT_S)
        if line is None:
            raise RuntimeError(f"ottla did not say ready within {START_TIMEOUT_S:.0f} s:\n{self.output_tail()}")
        self.addresses = line.removeprefix("ready ").split(",")
        if len(self.addresses) != self.nodes:
            raise RuntimeError(f"{self.nodes} nodes asked for, but the line was: {line}")

    def stop_node(self, node_id: int) -> None:
        """Stop one node; the others serve on. RuntimeError if it does not stop in time."""
        self._order(f"stop {node_id}", f"stopped {node_id}")

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again. RuntimeError if it does not start in time."""
        self._order(f"start {node_id}", f"started {node_id}")

    def _order(self, line: str, answer: str) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        if self.output.line(answer, STOP_TIMEOUT_S) is None:
            raise RuntimeError(f"no answer to '{line}':\n{self.output_tail()}")
