"""A broker in a process of its own: start, stop, kill, restart on the same data and port."""

import contextlib
import os
import queue
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

import psutil

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


class Broker(Protocol):
    """The part of a broker that most suites need: where it listens."""

    @property
    def bootstrap(self) -> str: ...


class RunningBroker:
    """A broker that the suite has not started: the suite can neither stop it nor read its files."""

    def __init__(self, address: str) -> None:
        self.bootstrap = address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class BrokerProcess:
    """Base of OttlaProcess and ApacheKafkaProcess. A context manager: entering starts, leaving stops and cleans up.

    Attributes:
        work: A folder of its own, for the broker's output and, unless another one was given, its data.
        data: The data directory; survives stop, kill and start.
        bootstrap: `HOST:PORT` of the first node, once started; the same after a restart.
        addresses: One address a node.
    """

    kind = "broker"
    stdin_source = subprocess.DEVNULL
    stop_timeout_s = STOP_TIMEOUT_S

    def __init__(
        self, *, data: Path | None = None, overrides: dict[str, str] | None = None, keep: bool = False
    ) -> None:
        self.work = Path(tempfile.mkdtemp(prefix=f"compat-{self.kind}-"))
        self.data = data or self.work / "data"
        self.overrides = dict(overrides or {})
        self.keep = keep
        self.addresses: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.thread_nanoseconds: dict[tuple[str, str], int] = {}  # (thread id, its start) -> time on a CPU

    # -- what the two kinds fill in

    def command(self) -> list[str]:
        raise NotImplementedError

    def wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        raise NotImplementedError

    # -- life

    def start(self) -> Self:
        """Start, or start again, and return when it serves. RuntimeError with the end of its output if it does not."""
        assert self.process is None, "already running"
        self.thread_nanoseconds.clear()
        command = self.command()
        with open(self.output_path, "ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=self.stdin_source,
                stdout=self.stdout_target(output),
                stderr=output,
                cwd=self.work,
                start_new_session=True,
            )
        try:
            self.wait_until_ready(self.process)
        except BaseException:
            self.kill()
            raise
        return self

    def stdout_target(self, output: IO[bytes]) -> int | IO[bytes]:
        return output

    def stop(self) -> int:
        """SIGTERM and wait; returns the exit code. A broker that does not stop in time is killed: RuntimeError."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"{self.kind} did not stop within {self.stop_timeout_s:.0f} s of SIGTERM") from None
        self._forget()
        return code

    def kill(self) -> None:
        """kill -9, at once."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._forget()

    def _forget(self) -> None:
        for stream in (self.process.stdin, self.process.stdout) if self.process else ():
            if stream:
                stream.close()
        self.process = None

    def restart(self, *, kill: bool = False, overrides: dict[str, str] | None = None) -> Self:
        """Stop (or kill) and start on the same data and port; `overrides` are added to those given before."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.overrides.update(overrides or {})
        return self.start()

    # -- looking at it

    @property
    def bootstrap(self) -> str:
        return self.addresses[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    @property
    def output_path(self) -> Path:
        return self.work / "output.log"

    def output_tail(self, lines: int = 15) -> str:
        return "\n".join(self.output_path.read_text(errors="replace").splitlines()[-lines:])

    def kernel_seconds(self) -> float:
        """Time in the kernel since it started, as sampled by its clock ticks."""
        assert self.process is not None
        return float(psutil.Process(self.process.pid).cpu_times().system)

    def cpu_seconds(self) -> float:
        """Return the time that the process was on a CPU since it started; on Linux to the microsecond.

        Of a thread that has ended, the time seen at an earlier call still counts.
        """
        assert self.process is not None
        threads = Path(f"/proc/{self.process.pid}/task")
        if not threads.exists():
            times = psutil.Process(self.process.pid).cpu_times()
            return float(times.user + times.system)
        for thread in threads.iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                started = (thread / "stat").read_text().rpartition(")")[2].split()[19]
                nanoseconds = int((thread / "schedstat").read_text().split()[0])
                self.thread_nanoseconds[thread.name, started] = nanoseconds
        return sum(self.thread_nanoseconds.values()) / 1e9

    def resident_bytes(self) -> int:
        assert self.process is not None
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        return self.data / f"{topic}-{partition}"

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.dispose()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.process is not None:
            if kind is None:
                self.stop()
            else:
                print(f"--- end of the output of {self.kind}:\n{self.output_tail()}\n---", flush=True)
                self.kill()
        self.dispose()

    def dispose(self) -> None:
        """Remove the work folder, unless `keep`."""
        if self.keep:
            print(f"kept: {self.work} (data: {self.data})", flush=True)
        else:
            shutil.rmtree(self.work, ignore_errors=True)


class LineReader(threading.Thread):
    """Copies a process's standard output to a file; `line` waits for what one of its lines begins with."""

    def __init__(self, stream: IO[bytes], copy_to: Path) -> None:
        super().__init__(daemon=True)
        self.stream, self.copy_to = stream, copy_to
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def run(self) -> None:
        with open(self.copy_to, "ab") as copy, contextlib.suppress(ValueError, OSError):
            for raw in self.stream:
                copy.write(raw)
                copy.flush()
                self.lines.put(raw.decode(errors="replace").strip())
        self.lines.put(None)

    def line(self, beginning: str, timeout_s: float) -> str | None:
        """Return the next line that begins so, others before it are passed by; None if there is none in time."""
        deadline = time.monotonic() + timeout_s
        with contextlib.suppress(queue.Empty):
            while (line := self.lines.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
                if line.startswith(beginning):
                    return line
        return None


def free_port() -> int:
    """Return a TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
