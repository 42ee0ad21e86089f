"""Builds `load.c`, and has it ask a broker."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ...support.brokers.process import BrokerProcess
from ...support.suite import NotRunError
from .requests import Asked

SOURCE = Path(__file__).with_name("load.c")
COMPILERS = ("cc", "gcc", "clang")
MEMORY_EVERY_S = 0.5
"""The time between two looks at the broker's memory during a load."""


@dataclass(frozen=True)
class Slice:
    """The results of one part of a load."""

    requests_a_s: float
    cpu_us: float
    """The broker's CPU for a request."""
    p50_us: float
    p99_us: float


@dataclass(frozen=True)
class Loaded:
    slices: list[Slice]
    fewest_part: float
    """Requests of the connection with the fewest, divided by those of the median connection."""
    memory_mb: float
    """The most resident memory that the broker had during the load."""


class Load:
    """The generator, built; a context manager. NotRunError without a C compiler."""

    def __init__(self) -> None:
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            raise NotRunError("a C compiler")
        self._folder = Path(tempfile.mkdtemp(prefix="compat-load-"))
        self._program = self._folder / "load"
        subprocess.run([compiler, "-O2", "-o", self._program, SOURCE], check=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def timed(self, broker: BrokerProcess, asked: Asked, connections: int, slices: int, slice_ms: int) -> Loaded:
        """Ask for `slices` times `slice_ms`, after a second that does not count."""
        assert broker.process is not None
        command = self._command(broker, asked, connections, slices, slice_ms, broker.process.pid)
        memory_bytes = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while True:
                try:
                    answer, said = process.communicate(timeout=MEMORY_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    memory_bytes = max(memory_bytes, broker.resident_bytes())
        if process.returncode:
            said = said.strip() or f"the load ended with {process.returncode}"
            raise RuntimeError(f"{connections} connections: {said}")
        *lines, last = answer.splitlines()
        found = []
        for line in lines:
            requests, wall_ns, cpu_ns, p50_ns, p99_ns = map(int, line.split())
            found.append(Slice(requests * 1e9 / wall_ns, cpu_ns / 1e3 / requests, p50_ns / 1e3, p99_ns / 1e3))
        fewest, median = map(int, last.split()[1:])
        return Loaded(found, fewest / max(median, 1), memory_bytes / 2**20)

    @contextmanager
    def counted(
        self, broker: BrokerProcess, asked: Asked, connections: int, requests: int
    ) -> Iterator[Callable[[], None]]:
        """Open the connections, and yield a function that makes `requests` requests."""
        command = self._command(broker, asked, connections, 0, requests, 0)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            words, answers = process.stdin, process.stdout

            def expect(answer: str) -> None:
                if answers.readline().strip() != answer:
                    raise RuntimeError(f"{connections} connections: the load ended with {process.wait()}")

            def ask() -> None:
                words.write("\n")
                words.flush()
                expect("done")

            expect("ready")
            yield ask
            words.write("\n")

    def _command(self, broker: BrokerProcess, asked: Asked, connections: int, *numbers: int) -> list[str]:
        frame, following = self._folder / "frame", self._folder / "following"
        frame.write_bytes(asked.frame)
        session: list[object] = []
        if asked.in_session is not None:
            following.write_bytes(asked.in_session.frame)
            session = [following, asked.in_session.session_at]
        command = [self._program, "127.0.0.1", broker.port, frame, asked.error_at, connections, *numbers, *session]
        return list(map(str, command))
