"""30 million distinct keys, where the server's map has 16 MiB: planned, compacted, verified, installed, snapshotted.

Every step is a run of `ottla-spark` with local[2] and a JVM heap of 1 GiB (the quick form has one JVM for all). The peak memory
of each of its processes is read from /proc and compared with the documented bounds of the modules; so is that of a log with a
quarter of the keys. The results are compared with arithmetic: the position of each key's newest record is known.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.logs.segment_files import batch_headers, segments
from ..support.suite import NotRunError, Options, Suite, run_suite

KEYS, QUICK_KEYS = 30_015_488, 786_432
SEGMENT_BYTES, QUICK_SEGMENT_BYTES = 128 << 20, 8 << 20
HEAP = "1g"
JVM_BESIDE_HEAP_BYTES = 512 << 20
"""Code, classes, stacks, Arrow's and the network's buffers."""
DRIVER_BYTES = 300 << 20
"""PySpark, pyarrow and NumPy, the plan, and the answers of the tasks."""
SERVER_MAP_BYTES = 16 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=int, help=f"default {KEYS}, quick {QUICK_KEYS}; multiples of 65536")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it judges the pipeline")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    from ottla.pipeline.errors import UsageError
    from ottla.pipeline.run.java import java_home

    try:
        java_home()
    except UsageError as error:
        raise NotRunError(f"a JDK ({error})") from None
    if not Path("/proc/self/smaps_rollup").exists():
        raise NotRunError("Linux: memory is read from /proc")
    keys = options.rest.keys or (QUICK_KEYS if options.quick else KEYS)
    segment_bytes = QUICK_SEGMENT_BYTES if options.quick else SEGMENT_BYTES
    directory = Path(tempfile.mkdtemp(prefix="ottla-spark-large-"))
    from .one_session import OneSession

    try:
        with OneSession(directory / "scratch", HEAP) if options.quick else nullcontext() as session:
            quarter = judge(suite, directory / "quarter", keys // 4, segment_bytes, session, plans=False)
            whole = judge(suite, directory / "whole", keys, segment_bytes, session, plans=not options.quick)
    finally:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
    judge_growth(suite, quarter, whole)


@dataclass
class Run:
    """The results of a log."""

    keys: int
    bounds: dict[str, int]
    """Command -> what the modules promise for a worker, in bytes."""
    workers: dict[str, int]
    """Command -> the highest peak of a worker, in bytes."""


def judge(suite: Suite, directory: Path, keys: int, segment_bytes: int, session: Any, *, plans: bool) -> Run:
    """Judge everything about a log of `keys` keys.

    Args:
        session: An OneSession to run the commands on; None for a process each.
        plans: Whether a command of its own makes the plan first; otherwise `compact` does.
    """
    from .bounds import worker_bounds
    from .keys_log import TP, living, make_keys_log, record_count, snapshot_faults

    what = f"{keys} keys"
    data_dir = directory / "data"
    started_s = time.monotonic()
    make_keys_log(data_dir, keys, segment_bytes=segment_bytes)
    logs = segments(data_dir / str(TP))
    size_bytes = sum(path.stat().st_size for path in logs)
    suite.note(
        f"{what}: {record_count(keys)} records, {size_bytes >> 20} MiB, {len(logs) - 1} segments,"
        f" written in {time.monotonic() - started_s:.1f} s"
    )
    judge_server(suite, what, data_dir, directory / "server", keys, segment_bytes)
    bounds = worker_bounds(record_count(keys), records_a_segment=record_count(keys) // (len(logs) - 1) + 1)
    run, topic = Run(keys, bounds, {}), ("--topic", TP.topic)

    def step(command: str, *arguments: str) -> dict[str, Any]:
        if session is not None:
            return dict(session.run(command, str(data_dir), *arguments))
        return ottla_spark(suite, run, command, str(data_dir), *arguments)

    if plans:
        step("plan", *topic)
    done = step("compact", *topic, "--no-verify")["partitions"][0]
    suite.equal(f"{what}: one record of each key is left", keys, done["records_written"])
    report = step("verify", "--plan", done["plan_id"])
    suite.equal(f"{what}: and verify, by the plan, finds nothing else", (True, keys), outcome(report))
    suite.equal(f"{what}: installed", "installed", step("install")["partitions"][0]["outcome"])
    left = sum(header.record_count for path in segments(data_dir / str(TP)) for header in batch_headers(path))
    suite.equal(f"{what}: so do the batch headers of the log", keys, left)
    made = step("snapshot", *topic, "--out", str(directory / "latest"))
    suite.equal(f"{what}: keys with a value", living(keys), made["keys"])
    rows, faults = snapshot_faults(directory / "latest", keys)
    suite.check(
        f"{what}: the snapshot has the newest record of each, once", rows == living(keys) and not faults, faults[:3]
    )
    if session is not None:  # its processes, and their peaks, last from command to command
        run.bounds = {"all commands": max(bounds.values())}
        judge_memory(suite, run, "all commands", session.watch)
    shutil.rmtree(directory, ignore_errors=True)
    return run


def outcome(report: dict[str, Any]) -> tuple[bool, int]:
    return report["passed"], sum(each["records"] for each in report["partitions"])


def judge_server(suite: Suite, what: str, data_dir: Path, copy: Path, keys: int, segment_bytes: int) -> None:
    """Check that the server's own pass covers only a part of the log, unless all keys fit its map."""
    from ottla.storage.cleaning.cleaner import Cleaner
    from ottla.storage.cleaning.dirtiness import measure
    from ottla.storage.disk.os_files import OsFiles
    from ottla.storage.logs.log_parts import LogPlace, ShutdownState
    from ottla.storage.logs.recovery import load_log
    from ottla.storage.topics.config import LogConfig

    from ..support.logs.big_log import linked_copy
    from .keys_log import TP

    linked_copy(data_dir, copy)
    config = LogConfig(cleanup_policy=("compact",), segment_bytes=segment_bytes)

    log = load_log(LogPlace(OsFiles(), str(copy / str(TP)), TP), config, ShutdownState(is_clean=True), now_ms=10**12)
    cleaner = Cleaner(dedupe_buffer_bytes=SERVER_MAP_BYTES, load_factor=0.9, io_buffer_bytes=1 << 20)
    end, _ = cleaner.clean(
        measure(log, 0, 10**12).for_worker(),
        10**12,
        secret=bytes(16),
        swap=lambda new, old: log.replace_segments(new, old, 10**12),
        checkpoint=lambda _: None,
    )
    upper = log.segments.active.base_offset
    fits = keys <= cleaner.max_entries
    text = "all the way" if fits else "part of the way"
    suite.check(
        f"{what}: a pass of the server with a map of 16 MiB comes {text}",
        (end == upper) == fits,
        f"to offset {end} of {upper}",
    )
    shutil.rmtree(copy)


def ottla_spark(suite: Suite, run: Run, command: str, *arguments: str) -> dict[str, Any]:
    """Run a command and judge its memory; returns what it printed."""
    from .memory import MemoryWatch

    started_s = time.monotonic()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ottla.pipeline.cli", command, *arguments),
            *("--master", "local[2]", "--conf", f"spark.driver.memory={HEAP}", "--json", "--quiet"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SPARK_LOCAL_DIRS": str(Path(arguments[0]).parent / "scratch")},
    )
    with MemoryWatch(process.pid) as watch:
        output, errors = process.communicate()
    seconds = time.monotonic() - started_s
    if process.returncode:
        raise RuntimeError(f"ottla-spark {command} ended with {process.returncode}: {errors.splitlines()[-1:]}")
    judge_memory(suite, run, command, watch, f"{seconds:.1f} s")
    return dict(json.loads(output))


def judge_memory(suite: Suite, run: Run, command: str, watch: Any, took: str = "") -> None:
    """Report the peak memory of the processes; judge it, if a JVM was among them."""
    from .memory import DRIVER, JVM, WORKER

    highest, kinds = watch.highest(), (WORKER, JVM, DRIVER)
    figures = [
        f"{kind} {highest[kind].rss >> 20} MiB (PSS {highest[kind].pss >> 20})" for kind in kinds if kind in highest
    ]
    suite.note(f"{command}: {took} peaks: {', '.join(figures)}; {watch.counts().get(WORKER, 0)} Python workers")
    if JVM not in highest:
        return
    limits = (run.bounds[command], (int(HEAP.removesuffix("g")) << 30) + JVM_BESIDE_HEAP_BYTES, DRIVER_BYTES)
    bounds = dict(zip(kinds, limits, strict=True))
    over = [kind for kind, bound in bounds.items() if kind in highest and highest[kind].rss > bound]
    text = ", ".join(f"{kind} {bound >> 20} MiB" for kind, bound in bounds.items())
    suite.check(f"{run.keys} keys: {command}: memory is bounded ({text})", not over, ", ".join(over))
    if WORKER in highest:
        run.workers[command] = max(run.workers.get(command, 0), highest[WORKER].rss)


NOISE_BYTES = 64 << 20
"""Runs of one size differ by up to 49 MiB, by which tasks a worker has met (277 and 326 MiB were seen); four times the memory would be 800 more."""


def judge_growth(suite: Suite, quarter: Run, whole: Run) -> None:
    """Check that four times the keys take no more memory than documented: none, once tasks have their largest size."""
    for command, bytes_of_quarter in quarter.workers.items():
        grown = whole.workers[command] - bytes_of_quarter
        allowed = whole.bounds[command] - quarter.bounds[command] + NOISE_BYTES
        suite.check(
            f"{command}: four times the keys take {allowed >> 20} MiB more at most",
            grown <= allowed,
            f"{bytes_of_quarter >> 20} -> {whole.workers[command] >> 20} MiB",
        )


if __name__ == "__main__":
    sys.exit(run_suite("spark_large", body, doc=__doc__, more_arguments=arguments))
