"""The longest hold: how long a broker makes one client wait while it works for another.

    with Pinger(broker.bootstrap, pid) as pinger:
        with pinger.watch() as hold:
            ...                       # work that may hold the others
        hold.longest_ms

A separate process (`pinger.py`) sends ApiVersions over its own connection every 5 ms. The hold is the longest time until an
answer. If it begins between two pings, the figure is up to 5 ms too small. The machine's own delays are subtracted: stalls that
another thread of the pinger saw as well, and the time in which the broker's first thread was ready to run while other programs
had the processors. Delays by the broker's own threads (the GIL, or a lack of processors) are not subtracted.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from ..brokers.clocked_ottla import Steps
from .pinger import PING, RECORD

INTERVAL_MS = 5
ANSWER_TIMEOUT_S = 120.0
SETTLE_S = 0.01
"""The pinger may report a stall of the machine a moment after the ping that it delayed."""


@dataclass
class Hold:
    """The results of a watch; set at its end.

    longest_ms: The longest time that the broker made a ping wait.
    raw_ms: The same including the machine's own delays.
    pings: The number of answered pings.
    steps: The longest step of the broker's thread, by its CPU time; None if the broker does not report steps.
    """

    longest_ms: float = 0.0
    raw_ms: float = 0.0
    pings: int = 0
    steps: Steps | None = None


class NotAnsweredError(Exception):
    """No ping was answered for ANSWER_TIMEOUT_S."""


class Ping(NamedTuple):
    """One that was answered; times on the monotonic clock. `held_ms` is without what the machine did."""

    sent_s: float
    answered_s: float
    held_ms: float


class Pinger:
    """A pinger of one broker from enter to exit; `pid` is its process, if its first thread serves.

    `take_steps` returns the steps since its last call (`ClockedOttla.take_steps`).

    Attributes:
        answered: The pings of the last watch.
    """

    def __init__(self, bootstrap: str, pid: int = 0, take_steps: Callable[[], Steps | None] = lambda: None) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._command = [sys.executable, str(Path(__file__).with_name("pinger.py")), host, port, str(pid or -1)]
        self._pings: list[tuple[float, float, float]] = []
        self._stalls: list[tuple[float, float]] = []
        self._come = threading.Condition()
        self._ended = False
        self._take_steps = take_steps
        self.answered: list[Ping] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen([*self._command, str(INTERVAL_MS)], stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait_for_ping(0.0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while len(record := output.read(RECORD.size)) == RECORD.size:
                kind, from_s, to_s, waited_s = RECORD.unpack(record)
                with self._come:
                    if kind == PING:
                        self._pings.append((from_s, to_s, waited_s))
                    else:
                        self._stalls.append((from_s, to_s))
                    self._come.notify_all()
        with self._come:
            self._ended = True
            self._come.notify_all()

    def _wait_for_ping(self, after_s: float) -> None:
        """Return when a ping has been answered that was sent after `after_s`. NotAnsweredError if none is."""
        with self._come:
            self._come.wait_for(
                lambda: self._ended or (self._pings and self._pings[-1][0] > after_s), timeout=ANSWER_TIMEOUT_S
            )
            if not self._pings or self._pings[-1][0] <= after_s:
                if self._ended:
                    raise RuntimeError("the pinger has ended: the broker closed its connection")
                raise NotAnsweredError(f"no ping was answered for {ANSWER_TIMEOUT_S:.0f} s")

    @contextmanager
    def watch(self) -> Iterator[Hold]:
        """Watch until the end of the block, and until one more ping has been answered after it."""
        self._take_steps()
        hold, begun_s = Hold(), time.monotonic()
        with self._come:
            self._forget()
        yield hold
        self._wait_for_ping(time.monotonic())
        time.sleep(SETTLE_S)
        hold.steps = self._take_steps()
        self.answered = self._since(begun_s)
        hold.pings = len(self.answered)
        hold.longest_ms = max(ping.held_ms for ping in self.answered)
        hold.raw_ms = max((ping.answered_s - ping.sent_s) * 1000 for ping in self.answered)

    def _since(self, begun_s: float) -> list[Ping]:
        with self._come:
            pings = [ping for ping in self._pings if ping[1] >= begun_s]
            stalls = [stall for stall in self._stalls if stall[1] >= begun_s]
        told = []
        for sent_s, answered_s, waited_s in pings:
            stalled_s = sum(max(0.0, min(answered_s, to_s) - max(sent_s, from_s)) for from_s, to_s in stalls)
            held_s = answered_s - sent_s - max(stalled_s, waited_s)
            told.append(Ping(sent_s, answered_s, max(0.0, held_s) * 1000))
        return told

    def _forget(self) -> None:
        """Keep the last ping only: a watch begins."""
        del self._pings[:-1], self._stalls[:]
