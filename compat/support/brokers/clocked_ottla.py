"""Ottla in a process of its own, whose clock a suite can move, and which reports the duration of its thread's steps."""

import contextlib
import json
import socket
import sys
from pathlib import Path
from typing import NamedTuple, Self

from .ottla_process import OttlaProcess

SCRIPT = Path(__file__).with_name("clocked_serve.py")


class Steps(NamedTuple):
    """The longest step of Trio's thread since the last request.

    cpu_ms: CPU time of the longest step.
    task: The task of that step.
    workers_ms: The most that other threads of the process may have held the interpreter's lock during one step.
    """

    cpu_ms: float
    task: str
    workers_ms: float


class ClockedOttla(OttlaProcess):
    """`ottla serve` with a clock to move."""

    stop_timeout_s = 180.0
    """A clean stop syncs every log, and there may be ten thousand."""

    def command(self) -> list[str]:
        _, *arguments = super().command()
        return [sys.executable, str(SCRIPT), str(self._path), *arguments]

    @property
    def _path(self) -> Path:
        return self.work / "clock"

    def start(self) -> Self:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        return super().start()

    def advance_clock(self, by_ms: int) -> None:
        """Let `by_ms` more have passed by the broker's clock; returns when what waits for it has been woken."""
        if self._told(str(by_ms)) != "done":
            raise RuntimeError("the broker's clock was not moved")

    def take_steps(self) -> Steps:
        """Return the longest step of Trio's thread since the last call."""
        return Steps(**json.loads(self._told("steps")))

    def _told(self, line: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._path))
            with connection.makefile("rw") as lines:
                lines.write(f"{line}\n")
                lines.flush()
                return lines.readline().removesuffix("\n")
