"""Whether other programs computed meanwhile: what a wall time says only if they did not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

QUIET_PART = 0.1
"""Of all processors' time. The kernel counts in hundredths of a second: over less than a quarter of a second this is its grain."""
TICKS_S = os.sysconf("SC_CLK_TCK")


class Machine:
    """From when it is made: how much of the processors somebody else had, by /proc/stat; a hypervisor's other guests, too.

    Ours is what this process, those it started and those they started used, if they have not ended unseen.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic(), _busy_s(), _ours_s()

    def others_part(self) -> float | None:
        """Of all processors' time since then; None where the system does not tell."""
        begun_s, busy_s, ours_s = self._begun
        now = _busy_s()
        if now is None or busy_s is None:
            return None
        others_s = now - busy_s - (_ours_s() - ours_s)
        return max(0.0, others_s) / ((time.monotonic() - begun_s) * (os.cpu_count() or 1))

    def is_quiet(self) -> bool:
        """Whether others had hardly anything."""
        part = self.others_part()
        return part is not None and part <= QUIET_PART


def _busy_s() -> float | None:
    """What all processors did other than to idle or to wait for a disk: user, nice, system, irq, softirq, steal."""
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
