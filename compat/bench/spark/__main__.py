"""The Spark pipeline compared with the same code without Spark, the server's cleaner, and the obvious first implementation.

Each ratio has two sides on the same log, by turns within one run; wall and CPU seconds of driver, JVM and Python
workers together. Results of compactions are compared with the server's bytes, snapshots with the query's rows.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...support.suite import NotRunError, Options, Suite, run_suite
from ..cleaner.work import load_note, work_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .logs import Made
    from .sides import Side, Sides
    from .stages import Alone

ROUNDS, MANY_KEYS_ROUNDS = 5, 3
MEGABYTES, QUICK_MEGABYTES = 500, 16
GROWTH = 4


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument(
        "--megabytes", type=int, help=f"of the smaller logs; default {MEGABYTES}; others have 4 times that"
    )


def body(suite: Suite, options: Options) -> None:
    if options.broker or options.against != "ottla":
        raise NotRunError("no broker: it measures the pipeline")
    if importlib.util.find_spec("pyspark") is None:
        raise NotRunError("PySpark: pip install 'ottla[spark]'")
    from ottla.pipeline.run.session import builder
    from ottla.pipeline.source.source import register

    from . import obvious

    wanted = options.rest
    rounds = wanted.rounds or (1 if options.quick else ROUNDS)
    size_bytes = (wanted.megabytes or (QUICK_MEGABYTES if options.quick else MEGABYTES)) * 1_000_000
    with work_directory(2 * GROWTH * size_bytes // 3) as work:
        suite.note(
            f"{rounds} rounds, logs of {size_bytes / 1e6:.0f} and {GROWTH * size_bytes / 1e6:.0f} MB; {load_note()}"
        )
        (work / "events").mkdir()
        made = builder("bench", master="local[2]")
        for name, value in {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (work / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.local.dir": str(work / "spark"),
            "spark.sql.warehouse.dir": str(work / "warehouse"),
            "spark.sql.session.timeZone": "UTC",
            "spark.ui.enabled": "false",  # its listener's CPU is none of the jobs'
        }.items():
            made = made.config(name, value)
        spark = made.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("OFF")
            register(spark)
            obvious.register(spark)
            bench = Bench(suite, spark, work, rounds, judged=not options.quick)
            bench.run(size_bytes)
        finally:
            spark.stop()
        bench.print(work / "events")


class Bench:
    """One run."""

    def __init__(self, suite: Suite, spark: SparkSession, work: Path, rounds: int, *, judged: bool) -> None:
        from .rows import Figures

        self.suite = suite
        self.spark = spark
        self.work = work
        self.rounds = rounds
        self.judged = judged
        self.figures = Figures()
        self.alone: list[tuple[Made, Alone]] = []

    def run(self, size_bytes: int) -> None:
        small, large = self.log("updates", size_bytes, 10), self.log("updates-x4", GROWTH * size_bytes, 10)
        unique = self.log("unique", size_bytes, 1)
        for side in (small.scan, small.scan_obviously, small.compact, small.compact_with_sql, small.snapshot):
            side()  # the JVM compiles
        for sides in (small, large, unique):
            differing = sides.differences()
            what = f"{sides.made.data_dir.name}: {len(sides.results)} groups are the server's byte for byte"
            self.suite.check(what, not differing and bool(sides.results), ", ".join(differing[:5]))
            self.measure_stages(sides)
        if not self.judged:
            return
        self.rounds_of(
            {
                "scan": small.scan,
                "scan, tuples": small.scan_obviously,
                "scan, no Spark": small.scan_without_spark,
                "scan of keys": small.scan_keys,
                "compact": small.compact,
                "compact, no Spark": small.compact_without_spark,
                "server's cleaner": small.server,
                "compact, SQL": small.compact_with_sql,
                "snapshot": small.snapshot,
                "snapshot, SQL": small.snapshot_with_sql,
                "snapshot unique": unique.snapshot,
                "snapshot unique, SQL": unique.snapshot_with_sql,
                "scan x4": large.scan,
                "snapshot x4": large.snapshot,
                "compact x4": large.compact,
                "compact x4, no Spark": large.compact_without_spark,
                "server's cleaner x4": large.server,
                "compact unique": unique.compact,
                "compact unique, no Spark": unique.compact_without_spark,
                "server's cleaner unique": unique.server,
                "ottla-spark compact, cold": small.cold_compact,
            },
            self.rounds,
        )
        for sides in (small, unique):
            what = f"{sides.made.data_dir.name}: rows that only one side's snapshot has"
            self.suite.equal(what, 0, sides.snapshot_differences())
        for sides in (small, large, unique):
            self.remove(sides)
        many = self.log("many-keys", GROWTH * size_bytes, 1)
        self.rounds_of(
            {"compact many keys": many.compact, "server's cleaner many keys": many.server_with_small_map},
            min(self.rounds, MANY_KEYS_ROUNDS),
        )
        self.suite.note(f"many keys: the server's cleaner needs {many.server_passes} passes with a map of 16 MiB")
        self.remove(many)

    def log(self, name: str, size_bytes: int, updates: int) -> Sides:
        from .logs import Shape, make_log
        from .sides import Sides

        return Sides(self.spark, make_log(Shape(name, size_bytes, updates), self.work / name), self.work)

    def remove(self, sides: Sides) -> None:
        sides.clear_staging()
        shutil.rmtree(sides.made.data_dir)

    def measure_stages(self, sides: Sides) -> None:
        from .stages import run_alone

        self.alone.append((sides.made, run_alone(sides.made)))

    def rounds_of(self, sides: dict[str, Side], rounds: int) -> None:
        """Run all sides once a round, alternately from the first and from the last on."""
        from .cost import IDLE_MIN, idle_share

        for number in range(rounds):
            if (idle := idle_share()) < IDLE_MIN:
                self.figures.was_idle = False
                self.suite.note(f"round {number + 1}: {idle:.0%} of the CPUs were idle before it: CPU ratios count")
            for name in list(sides)[:: -1 if number % 2 else 1]:
                self.figures.add(name, sides[name]())
                for root in self.work.glob("*.ottla-pipeline"):
                    shutil.rmtree(root)

    def print(self, events: Path) -> None:
        from .comparisons import COMPARISONS
        from .stages import judge_stages, of_spark

        found = of_spark(events)
        for made, alone in self.alone:
            judge_stages(self.suite, made, alone, found[made.data_dir.name])
        if self.judged:
            self.figures.print_sides(self.suite)
            self.figures.print_ratios(self.suite, COMPARISONS)


if __name__ == "__main__":
    sys.exit(run_suite("bench.spark", body, doc=__doc__, more_arguments=arguments))
