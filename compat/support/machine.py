"""Whether other programs used the processors during a measurement: only if not, a wall time is meaningful."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

QUIET_PART = 0.1
"""A share of all processors' time.

The kernel counts in hundredths of a second, so over less than a quarter of a second this is the resolution.
"""
TICKS_S = os.sysconf("SC_CLK_TCK")


class Machine:
    """The other programs' share of the processors since this object was made, by /proc/stat; a hypervisor's other guests count.

    The rest is the CPU time of this process, its children and their children, unless they ended unnoticed.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic(), _busy_s(), _ours_s()

    def others_part(self) -> float | None:
        """Return the others' share of all processors' time since then; None if the system does not report it."""
        begun_s, busy_s, ours_s = self._begun
        now = _busy_s()
        if now is None or busy_s is None:
            return None
        others_s = now - busy_s - (_ours_s() - ours_s)
        return max(0.0, others_s) / ((time.monotonic() - begun_s) * (os.cpu_count() or 1))

    def is_quiet(self) -> bool:
        """Return whether other programs had hardly any CPU time."""
        part = self.others_part()
        return part is not None and part <= QUIET_PART


def _busy_s() -> float | None:
    """Return the time that all processors were neither idle nor waiting for a disk: user, nice, system, irq, softirq, steal."""
    file = Path("/proc/stat")
    if not file.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, file.read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS_S


def _ours_s() -> float:
    this = psutil.Process()
    used_s = 0.0
    for process in (this, *this.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used_s += times.user + times.system + times.children_user + times.children_system
    return used_s
