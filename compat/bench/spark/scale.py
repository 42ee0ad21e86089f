"""Scaling: bytes that the driver reads, files that it has open, partitions, and cores.

    python -m compat.bench.spark.scale [--part NAME] [--megabytes N] [--segments N]
    python -m compat.bench.spark.scale --quick

Logs are those of `compat.bench.spark`. Bytes and files are judged. Times are only reported; all but those of `cores` are of
local[2].
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...support.suite import NotRunError, Options, Suite, run_suite
from ..cleaner.work import load_note, work_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEGABYTES, QUICK_MEGABYTES = 500, 16
SEGMENTS, QUICK_SEGMENTS = 10_000, 600
DESCRIPTORS = 1_024
PARTITIONS, QUICK_PARTITIONS = (1, 8, 64), (1, 4)
FOR_WORKERS_BYTES = 1_200_000_000
"""The size of a log whose headers Spark's workers read: one of more than 1 GiB."""
LOOK_S = 0.005
PARTS = ("driver", "files", "partitions", "cores")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be given again")
    parser.add_argument("--megabytes", type=int, help=f"of each log; default {MEGABYTES}")
    parser.add_argument("--segments", type=int, help=f"of the log of tiny segments; default {SEGMENTS}")


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it measures the pipeline")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    wanted = options.rest
    size_bytes = (wanted.megabytes or (QUICK_MEGABYTES if options.quick else MEGABYTES)) * 1_000_000
    segments = wanted.segments or (QUICK_SEGMENTS if options.quick else SEGMENTS)
    partitions = QUICK_PARTITIONS if options.quick else PARTITIONS
    of_driver = size_bytes if options.quick else max(size_bytes, FOR_WORKERS_BYTES)
    parts = wanted.part or PARTS
    with work_directory(2 * size_bytes) as work:
        suite.note(f"logs of {size_bytes / 1e6:.0f} MB; {load_note()}")
        judged: dict[str, Callable[[SparkSession], None]] = {
            "driver": lambda spark: _bytes_of_the_driver(suite, spark, work, of_driver),
            "files": lambda spark: _open_files(suite, spark, work, segments),
            "partitions": lambda spark: _partitions(suite, spark, work, size_bytes, partitions),
        }
        if set(parts) & set(judged):
            with _session(work, 2) as spark:
                for part, judge in judged.items():
                    if part in parts:
                        judge(spark)
        if "cores" in parts:
            _cores(suite, work, size_bytes)


@contextmanager
def _session(work: Path, cores: int) -> Iterator[SparkSession]:
    from ottla.pipeline.run.session import builder
    from ottla.pipeline.source.source import register

    made = builder("bench", master=f"local[{cores}]").config("spark.local.dir", str(work / "spark"))
    spark = made.config("spark.ui.enabled", "false").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        register(spark)
        yield spark
    finally:
        spark.stop()


def _bytes_of_the_driver(suite: Suite, spark: SparkSession, work: Path, size_bytes: int) -> None:
    from ottla.pipeline import jobs

    from .logs import TP, Shape, make_log

    made = make_log(Shape("driver", size_bytes), work / "driver")
    suite.note(f"driver: a log of {made.size_bytes / 1e6:.0f} MB")
    with read_here() as plan:
        jobs.plan(spark, str(made.data_dir), topic=TP.topic)
    with read_here() as compact:
        jobs.compact(spark, str(made.data_dir), topic=TP.topic)
    with read_here() as resumed:
        jobs.compact(spark, str(made.data_dir), topic=TP.topic)
    with read_here() as status:
        jobs.status(str(made.data_dir))
    old = _as_before(str(made.data_dir))
    with read_here() as installed:
        jobs.compact(spark, str(made.data_dir), topic=TP.topic, installs=True)
    suite.note(
        "| the driver's Python | MB read | of the log | CPU, s/GB | reading as before 2026-11-24: MB, CPU, s/GB |"
    )
    gigabytes = made.size_bytes / 1e9
    for name, found, reads in (
        ("plan", plan, ""),
        ("compact, verified", compact, "OO"),
        ("compact once more, all finished", resumed, "HO"),
        ("status", status, "O"),
        ("compact once more, installed", installed, "HOO"),
    ):
        then = [sum(old[each][number] for each in reads) for number in (0, 1)]
        suite.note(
            f"| {name} | {found[0] / 1e6:.2f} | {found[0] / made.size_bytes:.4f} | {found[1] / gigabytes:.3f}"
            f" | {then[0] / 1e6:.2f}, {then[1] / gigabytes:.3f} |"
        )
    _at_most(suite, "status: bytes that the driver reads, of the log", status[0] / made.size_bytes, 0.01)
    shutil.rmtree(made.data_dir)


def _as_before(data_dir: str) -> dict[str, list[float]]:
    """Return bytes and CPU of what the driver did until 2026-11-24, by the functions that workers use now: H the headers of all
    segments, O all that was written."""
    from ottla.pipeline.compaction.group_results import check_finished_group
    from ottla.pipeline.compaction.staging import pending_plans
    from ottla.pipeline.compaction.survey import survey_segments
    from ottla.pipeline.stores.reading_files import ReadingFiles
    from ottla.storage.disk.os_files import OsFiles

    (plan,) = pending_plans(OsFiles(), data_dir)
    with read_here() as headers:
        survey_segments(ReadingFiles(), plan.directory, [source.base_offset for source in plan.sources])
    with read_here() as output:
        for group in range(len(plan.groups)):
            assert check_finished_group(plan, group, ReadingFiles()) is not None
    return {"H": headers, "O": output}


def _open_files(suite: Suite, spark: SparkSession, work: Path, segments: int) -> None:
    from ottla.pipeline import jobs

    from .logs import RECORDS_A_BATCH, TP, Shape, make_log

    batch_bytes = 102 * RECORDS_A_BATCH
    made = make_log(Shape("tiny", segments * batch_bytes), work / "tiny", segment_bytes=batch_bytes)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, before[1]))
    try:
        with most_open_files() as open_files:
            (result,) = jobs.compact(spark, str(made.data_dir), topic=TP.topic, installs=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    suite.equal("tiny segments: installed", "installed", result.outcome)
    suite.note(
        f"{made.segment_count} segments, `ulimit -n` {DESCRIPTORS}: at most {open_files[0]} files open on the driver"
    )
    _at_most(suite, "files open on the driver", open_files[0], DESCRIPTORS // 2)
    shutil.rmtree(made.data_dir)


def _at_most(suite: Suite, what: str, found: float, most: float) -> None:
    suite.check(f"{what}: at most {most:g}", found <= most, f"{found:.4f}")


def _partitions(suite: Suite, spark: SparkSession, work: Path, size_bytes: int, counts: tuple[int, ...]) -> None:
    from ottla.pipeline import jobs

    from .cost import measured
    from .logs import TP, Shape, make_log

    suite.note("| partitions | at once | wall, s | CPU, s |")
    for count in counts:
        for at_once in (1, 4):
            made = make_log(Shape("parts", size_bytes), work / "parts", partitions=count)
            results: list[object] = []

            def work_on(
                at_once: int = at_once, data_dir: str = str(made.data_dir), into: list[object] = results
            ) -> None:
                found = jobs.compact(spark, data_dir, topic=TP.topic, verifies=False, at_once=at_once)
                into += [each.outcome for each in found]

            cost = measured(work_on)
            suite.note(f"| {count} | {at_once} | {cost.wall_s:.2f} | {cost.cpu_s:.2f} |")
            suite.equal(f"{count} partitions, {at_once} at once: staged", ["staged"] * count, results)
            shutil.rmtree(made.data_dir)
            shutil.rmtree(made.data_dir.with_name(made.data_dir.name + ".ottla-pipeline"))


def _cores(suite: Suite, work: Path, size_bytes: int) -> None:
    """Run a warm job of each kind on one core, on two, and on up to all cores of the machine."""
    from ottla.pipeline import jobs

    from .cost import measured
    from .logs import TP, Shape, make_log

    made = make_log(Shape("cores", size_bytes), work / "cores")
    data_dir, out = str(made.data_dir), str(work / "cores-latest")
    beside = made.data_dir.with_name(made.data_dir.name + ".ottla-pipeline")
    counts = [count for count in (1, 2, 4, 8, 16) if count <= max(2, os.cpu_count() or 1)]
    suite.note("| cores | compact: wall, CPU | verify | snapshot |")
    for count in counts:
        with _session(work, count) as spark:
            run: dict[str, Callable[[], object]] = {
                "compact": partial(jobs.compact, spark, data_dir, topic=TP.topic, verifies=False),
                "verify": partial(jobs.verify, spark, data_dir, topic=TP.topic),
                "snapshot": partial(jobs.snapshot, spark, data_dir, topic=TP.topic, out=out, overwrite=True),
            }
            costs = []
            for job in run.values():
                for is_warm in (False, True):
                    shutil.rmtree(beside, ignore_errors=True)
                    cost = measured(job)
                    if is_warm:
                        costs.append(f"{cost.wall_s:.2f} s, {cost.cpu_s:.2f} s")
            suite.note(f"| {count} | {' | '.join(costs)} |")
    shutil.rmtree(made.data_dir)


@contextmanager
def read_here() -> Iterator[list[float]]:
    """Measure the bytes that the driver's Python reads, and its CPU seconds, during the block; Spark's workers do not count."""
    found: list[float] = []
    bytes_before, cpu_before_s = _bytes_read(), time.process_time()
    yield found
    found += [_bytes_read() - bytes_before, time.process_time() - cpu_before_s]


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


@contextmanager
def most_open_files() -> Iterator[list[int]]:
    """Yield the largest number of descriptors that this process had open during the block."""
    found = [0]
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_S):
            found[0] = max(found[0], len(os.listdir("/proc/self/fd")))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(run_suite("bench.spark.scale", body, doc=__doc__, more_arguments=arguments))
