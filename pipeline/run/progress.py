"""Progress of a command's jobs: one line of a terminal that is redrawn, elsewhere a line every half minute.

    3 of 64 partitions; orders-3: segments scanned 312 of 400, groups written 0 of 60; orders-4: buckets merged 3 of 40,
    groups … (4:31)

It comes from the steps that count themselves (`pipeline.steps`); no file is read.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ..steps import Add, Counter, Watch, counted_here

Say = Callable[[str], None]
TELL_EVERY_S = 30.0
DRAW_EVERY_S = 0.5
_ERASED = "\r\x1b[2K"


class JobProgress:
    """Progress of one command. Its jobs may run in threads."""

    def __init__(
        self,
        tell: Say | None = None,
        *,
        every_s: float = TELL_EVERY_S,
        rest: Callable[[], None] = lambda: None,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            tell: Receives the line, from another thread; None disables progress.
            rest: Called when the last job has ended.
            elapsed_s: Seconds since any moment.
        """
        self._tell = tell
        self._every_s = every_s
        self._rest = rest
        self._elapsed_s = elapsed_s
        self._began_s = elapsed_s()
        self._watches: list[Watch] = []
        self._partitions, self._partitions_done = 0, 0
        self._lock = threading.RLock()
        self._ended: threading.Event | None = None

    @contextmanager
    def watching(
        self, about: str, counter: Callable[[], Counter] = counted_here, *, is_paced: bool = False
    ) -> Iterator[Watch]:
        """Watch a job during the block; its steps are counted with `counter`.

        Args:
            is_paced: Also report the rate and the time left. Only for jobs of one step.
        """
        watch = PacedWatch(about, counter, self._elapsed_s) if is_paced else Watch(about, counter)
        with self._lock:
            self._watches.append(watch)
            if self._tell is not None and self._ended is None:
                self._ended = threading.Event()
                threading.Thread(target=self._run, args=(self._ended,), name="progress", daemon=True).start()
        try:
            yield watch
        finally:
            with self._lock:
                self._watches.remove(watch)
                if not self._watches and self._ended is not None:
                    self._ended.set()
                    self._ended = None
                    self._rest()

    def begin(self, partitions: int) -> None:
        """Set the number of partitions to work on."""
        with self._lock:
            self._partitions, self._partitions_done = partitions, 0

    def partition_done(self) -> None:
        with self._lock:
            self._partitions_done += 1

    def look(self) -> None:
        """Report the progress and the time since the start."""
        with self._lock:
            if self._tell is not None and (text := self.text()):
                self._tell(f"{text} ({_minutes(self._elapsed_s() - self._began_s)})")

    def text(self) -> str:
        """Return the progress as text; empty while nothing is known."""
        with self._lock:
            jobs = [text for watch in self._watches if (text := str(watch))]
            count = f"{self._partitions_done} of {self._partitions} partitions"
            return "; ".join([count, *jobs] if jobs and self._partitions > 1 else jobs)

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(self._every_s):
            self.look()


class PacedWatch(Watch):
    """A job of one step, with the number of pieces a second and the time left: `rows written 40 of 70, 20 a second, 0:02 left`."""

    def __init__(self, about: str, counter: Callable[[], Counter], elapsed_s: Callable[[], float]) -> None:
        super().__init__(about, counter)
        self._elapsed_s = elapsed_s
        self._began_s = elapsed_s()

    def step(self, name: str, total: int) -> Add:
        self._began_s = self._elapsed_s()
        return super().step(name, total)

    def __str__(self) -> str:
        text = super().__str__()
        seconds = self._elapsed_s() - self._began_s
        if not text or not seconds or not (done := self.steps[-1].done()):
            return text
        left_s = seconds * (self.steps[-1].total - done) / done
        return f"{text}, {done / seconds:.0f} a second, {_minutes(left_s)} left"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


class Screen:
    """Terminal whose last line is redrawn; printed lines stay above it."""

    def __init__(self, out: TextIO, columns: Callable[[], int] = lambda: shutil.get_terminal_size().columns) -> None:
        self._out = out
        self._columns = columns
        self._lock = threading.Lock()
        self._is_drawn = False

    def say(self, line: str) -> None:
        with self._lock:
            self._erase()
            self._out.write(line + "\n")
            self._out.flush()

    def draw(self, text: str) -> None:
        """Draw the last line, cut to the terminal's width."""
        width = self._columns() - 1
        with self._lock:
            self._erase()
            self._out.write(text if len(text) <= width else text[: width - 1] + "…")
            self._out.flush()
            self._is_drawn = True

    def clear(self) -> None:
        """Erase the last line before other output."""
        with self._lock:
            self._erase()
            self._out.flush()

    def _erase(self) -> None:
        if self._is_drawn:
            self._out.write(_ERASED)
            self._is_drawn = False
