"""Ottla in a process of its own, whose clock a suite can move."""

import contextlib
import socket
import sys
from pathlib import Path
from typing import Self

from .ottla_process import OttlaProcess

SCRIPT = Path(__file__).with_name("clocked_serve.py")


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
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._path))
            with connection.makefile("rw") as lines:
                lines.write(f"{by_ms}\n")
                lines.flush()
                if lines.readline() != "done\n":
                    raise RuntimeError("the broker's clock was not moved")
