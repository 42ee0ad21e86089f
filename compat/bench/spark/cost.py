"""Wall and CPU seconds of a piece of work: of this process and all that it has started, driver, JVM and Python workers."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

IDLE_MIN = 0.9
"""The idle share of the CPUs before a round below which wall times mean little."""
_LOOK_S, _LOOK_AT_COMMAND_S = 0.3, 0.1
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    wall_s: float
    cpu_s: float
    jvm_s: float = 0.0
    """The JVM's part of the CPU seconds."""


def measured(work: Callable[[], object]) -> Cost:
    """Do it once. CPU seconds are those of user and system; processes must be reaped by one of the tree if they end."""
    before, before_jvm = _tree_cpu_s()
    started_s = time.monotonic()
    work()
    wall_s = time.monotonic() - started_s
    after, after_jvm = _tree_cpu_s()
    return Cost(wall_s, after - before, after_jvm - before_jvm)


def measured_here(work: Callable[[], object]) -> Cost:
    """Run work that starts no process, once. Spark's idle workers, which may end during it, do not count."""
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    work()
    return Cost(time.monotonic() - started_s, time.process_time() - started_cpu_s)


def measured_command(words: list[str]) -> Cost:
    """Run a program, whose JVM may outlive it; return the cost of its processes when they were last seen.

    Raises:
        RuntimeError: It failed.
    """
    started_s = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seen: dict[int, tuple[str, int]] = {}
    while process.poll() is None:
        seen |= _tree(process.pid)
        time.sleep(_LOOK_AT_COMMAND_S)
    wall_s = time.monotonic() - started_s
    assert process.stdout is not None
    if process.wait():
        raise RuntimeError(f"{' '.join(words)}: {process.stdout.read()[-2000:]}")
    process.stdout.close()
    cpu_s, jvm_s = _cpu_and_jvm_s(seen)
    return Cost(wall_s, cpu_s, jvm_s)


def idle_share() -> float:
    """Return the idle share of the machine's CPUs, during a moment in which this process also does nothing."""
    idle, total = _idle_and_total()
    time.sleep(_LOOK_S)
    idle_after, total_after = _idle_and_total()
    return (idle_after - idle) / max(1, total_after - total)


def _idle_and_total() -> tuple[int, int]:
    ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def _tree_cpu_s() -> tuple[float, float]:
    return _cpu_and_jvm_s(_tree(os.getpid()))


def _cpu_and_jvm_s(found: dict[int, tuple[str, int]]) -> tuple[float, float]:
    jvm_ticks = sum(ticks for name, ticks in found.values() if name == "java")
    return sum(ticks for _, ticks in found.values()) / _TICKS, jvm_ticks / _TICKS


def _tree(root: int) -> dict[int, tuple[str, int]]:
    """Return name and CPU ticks of a process and its descendants; a reaped process counts with the one that reaped it."""
    children: dict[int, list[int]] = {}
    found: dict[int, tuple[str, int]] = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            head, _, rest = Path("/proc", each, "stat").read_text().rpartition(")")
        except OSError:  # the process has ended
            continue
        fields = rest.split()
        children.setdefault(int(fields[1]), []).append(int(each))
        found[int(each)] = (head.partition("(")[2], sum(map(int, fields[11:15])))
    tree, todo = {}, [root]
    while todo:
        process = todo.pop()
        todo += children.get(process, ())
        if process in found:
            tree[process] = found[process]
    return tree
