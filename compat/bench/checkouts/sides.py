"""One checkout: its broker as a process, and what that has used."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ...support.brokers.ottla_process import OttlaProcess
from ...support.brokers.process import START_TIMEOUT_S
from ...support.clients.raw import RawConnection
from .kinds import prepare, repeat

COUNTED = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
UNDER_VALGRIND_S = 300.0

STARTS = """
import time, ottla
Broker = ottla.Broker
for _ in range({starts} + 1):
    broker = Broker()
    begun = time.process_time()
    broker.start()
    print((time.process_time() - begun) * 1000)
    broker.stop()
"""


class CheckoutProcess(OttlaProcess):
    """`ottla serve` of another checkout, which has an environment in `.venv`; under valgrind if `is_counted`."""

    def __init__(
        self,
        checkout: Path,
        *,
        overrides: dict[str, str] | None = None,
        keep: bool = False,
        is_counted: bool = False,
    ) -> None:
        super().__init__(overrides=overrides, keep=keep)
        self.checkout, self.is_counted = checkout, is_counted

    def command(self) -> list[str]:
        python, program = (str(self.checkout / ".venv" / "bin" / name) for name in ("python", "ottla"))
        counting = (
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={self.work / 'counted'}",
        )
        return [*(counting if self.is_counted else ()), python, program, *super().command()[1:]]

    def order(self, *order: str) -> None:
        """Send an order to callgrind."""
        assert self.process is not None
        command = ["callgrind_control", *order, str(self.process.pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=UNDER_VALGRIND_S, cwd=self.work)

    def counted(self) -> int:
        """Return instructions since the last `zero` or `dump`."""
        before = set(self.work.glob("counted.*"))
        self.order("--dump")
        (found,) = set(self.work.glob("counted.*")) - before
        told = COUNTED.search(found.read_text())
        if told is None:
            raise RuntimeError(f"callgrind said no count in {found}")
        return int(told[1])


class Side:
    """A broker that runs, and a connection to it."""

    def __init__(self, broker: CheckoutProcess, kinds: Mapping[str, bytes], warm_up: int) -> None:
        self.broker, self.kinds = broker, kinds
        self.connection = RawConnection("127.0.0.1", broker.port, UNDER_VALGRIND_S)
        prepare(self.connection)
        if broker.is_counted:
            broker.order("--instr=on")
        for request in kinds.values():
            repeat(self.connection, request, warm_up)

    def cpu_us(self, kind: str, times: int) -> float:
        """Return the broker's CPU time for one request."""
        begun_s = self.broker.cpu_seconds()
        repeat(self.connection, self.kinds[kind], times)
        return (self.broker.cpu_seconds() - begun_s) / times * 1e6

    def instructions(self, kind: str, times: int) -> float:
        """Return the broker's instructions for one request."""
        self.broker.order("--zero")
        repeat(self.connection, self.kinds[kind], times)
        return self.broker.counted() / times


def ready_cpu_ms(checkout: Path) -> float:
    """Return the CPU time from the command to the line `ready`, on a new data directory. The broker is then killed at once."""
    broker = CheckoutProcess(checkout)
    try:
        process = subprocess.Popen(
            broker.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=broker.work, start_new_session=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0  # we have waited for it
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
    finally:
        broker.dispose()
    if not line.startswith(b"ready "):
        raise RuntimeError(f"{checkout}: {line!r} instead of the line `ready`")
    return (used.ru_utime + used.ru_stime) * 1e3


def broker_cpu_ms(checkout: Path, starts: int) -> tuple[float, list[float]]:
    """Return CPU of the start of an `ottla.Broker()`: of the first in an interpreter, and of each after it."""
    program = STARTS.format(starts=starts)
    command = [str(checkout / ".venv" / "bin" / "python"), "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=START_TIMEOUT_S, cwd="/")
    first, *others = map(float, done.stdout.split())
    return first, others
