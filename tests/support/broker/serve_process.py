"""`ottla serve` in a process of its own, as a user or another program starts it."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 60
"""The time limit: nothing here takes a second, but a machine under load gets this long before a test fails."""


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ottla.server", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


class ServeProcess:
    """A running `ottla serve`; killed at the end of the block unless it was stopped.

    Its standard input is at its end from the start, unless it `obeys` lines. It may have few `descriptors`.
    """

    def __init__(self, *arguments: str | Path, obeys: bool = False, descriptors: int = 0) -> None:
        few = ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh") if descriptors else ()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the process has ended
        self._process = subprocess.Popen(
            [*few, *command("serve", *arguments)],
            stdin=subprocess.PIPE if obeys else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # A file, so that neither stream can fill up while we read the other.
            stderr=self._errors,
            text=True,
        )
        assert self._process.stdout is not None
        self.first_line = self._process.stdout.readline()
        self.stderr = ""

    def __enter__(self) -> Self:
        if not self.first_line:
            self.kill()
            raise AssertionError(f"ottla serve ended with {self._process.returncode}: {self.stderr}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Return host and port of each node, as the `ready` line says."""
        texts = self.first_line.removeprefix("ready ").strip().split(",")
        return [(host, int(port)) for host, _, port in (text.rpartition(":") for text in texts)]

    def say(self, text: str) -> None:
        """Write `text` to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def hang_up(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def hear(self) -> str:
        """Return the next line of its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def signal_until_the_end(self, *numbers: int) -> None:
        """Send signals one after the other, repeatedly, until the process has ended.

        Sends a few hundred a second: the process must make progress between them, even on a busy machine.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        for number in cycle(numbers):
            assert time.monotonic() < deadline_s
            self._process.send_signal(number)
            try:
                self._process.wait(0.002)
            except subprocess.TimeoutExpired:
                continue
            return

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and the remaining output. `stderr` is complete then."""
        self._process.send_signal(number)
        if self._process.stdin is not None:
            self._process.stdin.close()
        assert self._process.stdout is not None
        # Not `communicate`, which would miss what `readline` has read ahead.
        with self._process.stdout as stdout:
            output = stdout.read()
        code = self._process.wait(PATIENCE_S)
        self._errors.seek(0)
        self.stderr = self._errors.read()
        self._errors.close()
        return code, output

    def kill(self) -> None:
        """Kill the process: as in a power loss, except that the page cache survives."""
        self.stop(signal.SIGKILL)
