"""The peak memory of a process and of all that it starts, from /proc.

RSS    of each process by the kernel's own high-water mark (VmHWM), so no peak falls between two looks
PSS    where pages that are shared count in parts (workers are forks of one daemon); the highest that was seen
"""

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

LOOK_EVERY_S = 0.1
PSS_EVERY = 5
"""Looks for one at the PSS, which the kernel has to walk all pages for."""

JVM, WORKER, DRIVER, LAUNCHER = "JVM", "Python worker", "driver", "launcher"
_KINDS = (
    ("-Xmx128m -cp", LAUNCHER),  # of spark-submit: it builds the command line and ends
    ("java", JVM),
    ("pyspark.daemon", WORKER),
    ("pyspark.sql.worker", WORKER),
)


@dataclass
class Peak:
    """The peak memory of one process, in bytes."""

    kind: str
    rss: int = 0
    pss: int = 0


class MemoryWatch:
    """A context manager that samples a process and its descendants from another thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._peaks: dict[tuple[int, float], Peak] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def highest(self) -> dict[str, Peak]:
        """Return kind -> the highest RSS and the highest PSS of any one process of the kind."""
        found: dict[str, Peak] = {}
        for peak in list(self._peaks.values()):
            most = found.setdefault(peak.kind, Peak(peak.kind))
            most.rss, most.pss = max(most.rss, peak.rss), max(most.pss, peak.pss)
        return found

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for peak in list(self._peaks.values()):
            found[peak.kind] += 1
        return found

    def _run(self) -> None:
        looks = 0
        while not self._ended.wait(LOOK_EVERY_S):
            looks += 1
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(self._pid)
                for process in (root, *root.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError, PermissionError):
                        self._look(process, with_pss=looks % PSS_EVERY == 0)

    def _look(self, process: psutil.Process, *, with_pss: bool) -> None:
        command = " ".join(process.cmdline())
        kind = next((kind for part, kind in _KINDS if part in command), DRIVER)
        if process.pid != self._pid and kind == DRIVER:  # bash that starts the JVM, or a process before its exec
            return
        peak = self._peaks.setdefault((process.pid, process.create_time()), Peak(kind))
        peak.kind = kind
        folder = Path("/proc", str(process.pid))
        peak.rss = max(peak.rss, _kilobytes(folder / "status", "VmHWM:"))
        if with_pss:
            peak.pss = max(peak.pss, _kilobytes(folder / "smaps_rollup", "Pss:"))


def _kilobytes(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0
