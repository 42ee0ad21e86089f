"""Starts `ottla serve` as a user would, in its own process, and waits for its `ready` line."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from .process import START_TIMEOUT_S, BrokerProcess, LineReader
from .suite import NotRunError


def ottla_command() -> list[str]:
    """The console command of the environment we run in, else the one on the path."""
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
        for name, value in self.overrides.items():
            command += ["--override", f"{name}={value}"]
        return command

    def stdout_target(self, output: IO[bytes]) -> int | IO[bytes]:
        return subprocess.PIPE

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        reader = LineReader(process.stdout, self.output_path, "ready ")
        reader.start()
        if not reader.found.wait(START_TIMEOUT_S) or reader.line is None:
            raise RuntimeError(f"ottla did not say ready within {START_TIMEOUT_S:.0f} s:\n{self.output_tail()}")
        self.addresses = reader.line.removeprefix("ready ").split(",")
        if len(self.addresses) != self.nodes:
            raise RuntimeError(f"{self.nodes} nodes asked for, but the line was: {reader.line}")
