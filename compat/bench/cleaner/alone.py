"""Ottla's pass alone, each in a fresh process: how its cost grows with the log, what memory it takes, how many
instructions a record costs."""

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ottla.storage.filter.offset_map import BYTES_PER_SLOT, SECRET_BYTES, OffsetMap, entries_max

from ...support.suite import Suite
from ..table import judge
from .generate import PARTITION, generate, record_count
from .passes import DEDUPE_BUFFER_BYTES, LOAD_FACTOR, fresh_copy
from .shapes import BASE

ROOT = Path(__file__).parents[3]
INSTRUCTION_LOG_BYTES = (8_000_000, 24_000_000)
COLLECTED = re.compile(r"Collected : (\d+)")


def judge_alone(suite: Suite, work: Path, raw_bytes: int, rounds: int, *, quick: bool) -> None:
    """Memory on the base log; then growth and instructions, unless `quick`."""
    now_ms = int(time.time() * 1000)
    logs = {}
    for factor in (1,) if quick else (1, 2):
        logs[factor] = work / f"times-{factor}" / str(PARTITION)
        generate(BASE, factor * raw_bytes, logs[factor], now_ms)
    runs: dict[int, list[dict[str, Any]]] = {factor: [] for factor in logs}
    for _ in range(rounds):
        for factor, log in logs.items():
            runs[factor].append(json.loads(run_alone(log, work, now_ms).stdout))
    for log in logs.values():
        shutil.rmtree(log.parent)
    judge_memory(suite, runs[1], record_count(BASE, raw_bytes))
    if quick:
        return
    once_s, twice_s = (statistics.median(run["cpu_s"] for run in runs[factor]) for factor in (1, 2))
    judge(suite, f"CPU time when the log doubles to {2 * raw_bytes / 1e6:.0f} MB", twice_s / once_s, "times", 2.3, 2.1)
    judge_instructions(suite, work)


def run_alone(log: Path, work: Path, now_ms: int, *prefix: str) -> subprocess.CompletedProcess[str]:
    """Measure one pass over a fully dirty log."""
    with fresh_copy(log, work / "alone") as directory:
        command = [*prefix, sys.executable, "-m", "compat.bench.cleaner.passes", str(directory), "0", str(now_ms)]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)


def judge_memory(suite: Suite, runs: list[dict[str, Any]], records: int) -> None:
    """Judge the memory that the pass adds to the process, apart from its map's table.

    The table is as large as in any such pass.
    """
    judge(suite, "offset map: bytes a slot", BYTES_PER_SLOT, "B", 24, 16)
    offsets = OffsetMap(
        0,
        records,
        slots_max=DEDUPE_BUFFER_BYTES // BYTES_PER_SLOT,
        entries_max=entries_max(DEDUPE_BUFFER_BYTES, LOAD_FACTOR),
        secret=bytes(SECRET_BYTES),
    )
    table_bytes = offsets.slots * BYTES_PER_SLOT
    peak_bytes = max(run["resident_peak_bytes"] for run in runs)
    added_bytes = max(run["resident_peak_bytes"] - run["resident_before_bytes"] for run in runs)
    suite.note(
        f"resident at the peak of a pass over {records} records: {peak_bytes / 1e6:.0f} MB, of which {added_bytes / 1e6:.0f} MB"
        f" came with the pass, {table_bytes / 1e6:.0f} MB as its table"
    )
    judge(suite, "resident memory that a pass adds to its table", (added_bytes - table_bytes) / 1e6, "MB", 20)


def judge_instructions(suite: Suite, work: Path) -> None:
    """Judge the cost of 16 MB more of log, counted by valgrind: the same on every machine and under any load."""
    if not shutil.which("valgrind"):
        suite.skip("instructions per record", "needs valgrind")
        return
    counts = []
    now_ms = int(time.time() * 1000)
    for log_bytes in INSTRUCTION_LOG_BYTES:
        log = work / "counted" / str(PARTITION)
        generate(BASE, log_bytes, log, now_ms)
        done = run_alone(log, work, now_ms, "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
        shutil.rmtree(log.parent)
        found = COLLECTED.search(done.stderr)
        if not found:
            raise RuntimeError(f"valgrind said no count:\n{done.stderr[-2000:]}")
        counts.append(int(found[1]))
    more_records = record_count(BASE, INSTRUCTION_LOG_BYTES[1]) - record_count(BASE, INSTRUCTION_LOG_BYTES[0])
    judge(suite, "instructions per record", (counts[1] - counts[0]) / more_records, "", 1_100, 650)
