"""The memory, threads and descriptors of the broker's process, read from /proc while it serves, and whether they grow."""

import contextlib
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

EVERY_S = 10.0
AFTER_S, MARGIN_S, END_S = 600.0, 60.0, 120.0
"""Minutes 9 to 11 are compared with the last two."""
MEMORY_LIMIT = 1.1
MORE_DESCRIPTORS, MORE_THREADS = 10, 4
"""The growth allowed in addition to a tenth: segments being cleaned, short-lived connections and threads."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look: seconds since the load began, KiB of memory, threads, descriptors by kind."""

    at_s: float
    resident_kib: int
    proportional_kib: int
    threads: int
    descriptors: Counter[str]


def read(pid: int, at_s: float) -> Reading:
    """Read the figures of a process. Raises OSError if it does not exist."""
    process = Path(f"/proc/{pid}")
    status = _fields(process / "status")
    shares = _fields(process / "smaps_rollup")
    kinds = Counter(map(kind, _descriptors(process)))
    return Reading(at_s, status["VmRSS"], shares["Pss"], status["Threads"], kinds)


def _fields(file: Path) -> dict[str, int]:
    """`Name:  number …` lines."""
    lines = (line.split() for line in file.read_text().splitlines())
    return {name[:-1]: int(value) for name, value, *_ in (line for line in lines if len(line) > 1) if value.isdigit()}


def _descriptors(process: Path) -> list[str]:
    found = []
    for each in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the listing
            found.append(str(each.readlink()))
    return found


def kind(target: str) -> str:
    """Return the kind of a descriptor's target: `socket`, `pipe`, `[eventpoll]`, `.log`, `.log (deleted)`, …"""
    deleted = " (deleted)" if target.endswith(" (deleted)") else ""
    path = target.removesuffix(" (deleted)")
    if not path.startswith("/"):
        return path.partition(":")[0] if "[" not in path or path[0] != "a" else path.removeprefix("anon_inode:")
    return (Path(path).suffix or "other file") + deleted


class Watch(threading.Thread):
    """Reads the process's figures until its end is set, and prints some of them."""

    def __init__(self, pid: int, began_s: float, told_every_s: float, tell: Callable[[str], None]) -> None:
        super().__init__(name="watch", daemon=True)
        self.pid, self.began_s, self.tell = pid, began_s, tell
        self.told_every = max(1, round(told_every_s / EVERY_S))
        self.readings: list[Reading] = []
        self._end = threading.Event()

    def run(self) -> None:
        self.tell(HEAD)
        while not self._end.wait(EVERY_S):
            self.readings.append(read(self.pid, time.monotonic() - self.began_s))
            if len(self.readings) % self.told_every == 0:
                self.tell(row(self.readings[-1]))

    def end(self) -> list[Reading]:
        self._end.set()
        self.join()
        return self.readings


@dataclass(frozen=True, slots=True)
class Then:
    """Medians over a part of a run."""

    resident_kib: float
    proportional_kib: float
    threads: float
    descriptors: dict[str, float]

    @property
    def all_descriptors(self) -> float:
        return sum(self.descriptors.values())


def medians(readings: Sequence[Reading]) -> Then:
    kinds = sorted({kind for each in readings for kind in each.descriptors})
    return Then(
        statistics.median(each.resident_kib for each in readings),
        statistics.median(each.proportional_kib for each in readings),
        statistics.median(each.threads for each in readings),
        {kind: statistics.median(each.descriptors[kind] for each in readings) for kind in kinds},
    )


def then_and_now(readings: Sequence[Reading]) -> tuple[Then, Then]:
    """Return medians of the tenth minute and of the last two.

    Raises:
        ValueError: No reading is of the tenth minute.
    """
    then = [each for each in readings if abs(each.at_s - AFTER_S) <= MARGIN_S]
    if not then:
        raise ValueError(f"{len(readings)} readings, none about minute {AFTER_S / 60:.0f}")
    return medians(then), medians([each for each in readings if each.at_s >= readings[-1].at_s - END_S])


def grown_descriptors(then: Then, now: Then) -> dict[str, tuple[float, float]]:
    """Return kind -> (then, now), for kinds whose count grew by more than a tenth plus MORE_DESCRIPTORS."""
    pairs = {kind: (then.descriptors.get(kind, 0), count) for kind, count in now.descriptors.items()}
    return {kind: pair for kind, pair in pairs.items() if pair[1] > pair[0] * 1.1 + MORE_DESCRIPTORS}


HEAD = f"{'minute':>7} {'RSS MiB':>8} {'PSS MiB':>8} {'threads':>8} {'fds':>5}  by kind"


def row(reading: Reading) -> str:
    """Return a line of the table that HEAD begins."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(reading.descriptors.items()))
    memory = f"{reading.resident_kib / 1024:8.1f} {reading.proportional_kib / 1024:8.1f}"
    return f"{reading.at_s / 60:7.1f} {memory} {reading.threads:8} {reading.descriptors.total():5}  {kinds}"
