"""The progress of a command: counted by its steps, printed at intervals, overwritten on a terminal."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.run.engine import IN_PROCESS, Engine
from ottla.pipeline.run.progress import JobProgress, Screen
from ottla.pipeline.steps import UNWATCHED, Counter, Watch, counted_here
from support.pipeline.stored_topic import TOPIC, stored_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 60


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_job_reports_its_steps_until_they_are_done() -> None:
    watch = Watch("orders-0")
    assert str(watch) == ""
    scanned, written = watch.step("segments scanned", 3), watch.step("groups written", 1)
    assert str(watch) == "orders-0: segments scanned 0 of 3, groups written 0 of 1"
    scanned(2)
    assert str(watch) == "orders-0: segments scanned 2 of 3, groups written 0 of 1"
    scanned(1)
    assert str(watch) == "orders-0: groups written 0 of 1"
    written(1)
    assert str(watch) == ""


def test_tasks_of_work_that_spark_divides_are_counted_while_they_run(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.pipeline.spark.tasks import running_tasks, work

    watch, gate = Watch("orders"), str(tmp_path / "gate")
    watch.running = lambda: running_tasks(spark)
    assert str(watch) == ""
    os.mkfifo(gate)

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        with open(gate):
            yield from batches

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: work(spark, 1).mapInArrow(wait, "id bigint").collect())
        while not (said := str(watch)) and not done.done():
            pass
        with open(gate, "w"):
            pass
        assert len(done.result()) == 1
    assert said == "orders: tasks finished 0 of 1"


def test_a_repeated_piece_does_not_exceed_the_total() -> None:
    watch = Watch("orders-0")
    scanned = watch.step("segments scanned", 3)
    scanned(5)
    assert watch.steps[0].done() == 3


def test_a_job_continues_with_another_partition() -> None:
    watch = Watch("orders-0")
    watch.step("segments verified", 3)
    watch.begin("orders-1")
    assert str(watch) == ""
    watch.step("segments verified", 2)
    assert str(watch) == "orders-1: segments verified 0 of 2"


def test_unwatched_progress_counts_nothing() -> None:
    UNWATCHED.begin("orders-0")
    UNWATCHED.step("segments scanned", 3)(2)
    assert UNWATCHED.steps == () and str(UNWATCHED) == ""


def test_progress_shows_the_step_and_duration_of_all_jobs() -> None:
    lines: list[str] = []
    clock = Clock()
    progress = JobProgress(lines.append, every_s=PATIENCE_S, elapsed_s=clock)
    progress.look()
    progress.begin(3)
    with progress.watching("orders-0") as one, progress.watching("orders-1") as other:
        progress.look()
        assert not lines, "there is nothing to say yet"
        one.step("segments scanned", 4)(1)
        other.step("groups written", 2)
        progress.partition_done()
        clock.now_s += 61
        progress.look()
    progress.look()
    assert lines == ["1 of 3 partitions; orders-0: segments scanned 1 of 4; orders-1: groups written 0 of 2 (1:01)"]


def test_a_paced_job_reports_its_rate_and_the_time_left() -> None:
    clock = Clock()
    progress = JobProgress(elapsed_s=clock)
    with progress.watching("copy", is_paced=True) as watch:
        clock.now_s += 1_000
        assert progress.text() == ""
        count = watch.step("rows written", 400)
        assert progress.text() == "copy: rows written 0 of 400"
        clock.now_s += 2
        assert progress.text() == "copy: rows written 0 of 400", "nothing is known yet"
        count(10)
        assert progress.text() == "copy: rows written 10 of 400, 5 a second, 1:18 left"
        count(390)
        assert progress.text() == ""


def test_a_single_partition_is_not_counted() -> None:
    progress = JobProgress()
    progress.begin(1)
    with progress.watching("orders-0") as watch:
        watch.step("segments scanned", 4)
        assert progress.text() == "orders-0: segments scanned 0 of 4"


def test_progress_is_reported_only_while_a_job_runs() -> None:
    told, rested = threading.Event(), threading.Event()
    progress = JobProgress(lambda _line: told.set(), every_s=0.001, rest=rested.set)
    for _ in range(2):  # a thread while jobs exist
        told.clear()
        rested.clear()
        with progress.watching("orders-0") as watch:
            watch.step("segments scanned", 4)
            assert told.wait(PATIENCE_S)
        assert rested.is_set()
    for thread in threading.enumerate():
        if thread.name == "progress":
            thread.join(PATIENCE_S)
    told.clear()
    assert not any(thread.name == "progress" for thread in threading.enumerate())
    assert not told.is_set()


def test_a_terminal_overwrites_the_progress_line_and_keeps_messages() -> None:
    out = io.StringIO()
    screen = Screen(out, columns=lambda: 11)
    screen.draw("one")
    screen.draw("far too much of it")
    screen.say("group 1 of 3")
    screen.clear()
    screen.draw("two")
    screen.clear()
    erased = "\r\x1b[2K"
    assert out.getvalue() == f"one{erased}far too m…{erased}group 1 of 3\ntwo{erased}"


class Kept(JobProgress):
    """A recorder of jobs' counts."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: list[tuple[str, int, int]] = []

    @contextmanager
    def watching(
        self, about: str, counter: Callable[[], Counter] = counted_here, *, is_paced: bool = False
    ) -> Iterator[Watch]:
        with super().watching(about, counter, is_paced=is_paced) as watch:
            yield watch
            self.counted += [(f"{watch.about}: {step.name}", step.counted(), step.total) for step in watch.steps]


ON_SPARK = {
    "compact": ["segments scanned", "buckets merged", "groups written"],
    "verify": ["segments' transactions read", "segments verified", "buckets of keys judged"],
    "snapshot": ["parts searched", "buckets of keys chosen from", "parts written"],
}
HERE = {
    "compact": ["segments scanned", "groups written"],
    "verify": ["segments verified"],
    "snapshot": ["parts searched", "parts written"],
}


def check_counts(spark: SparkSession | None, data_dir: Path, expected: dict[str, list[str]]) -> None:
    from ottla.pipeline import jobs

    def counted(name: str, run: Callable[..., object], **options: Any) -> None:
        kept = Kept()
        engine = Engine(IN_PROCESS if spark is None else None, session=spark, progress=kept)
        run(spark, str(data_dir), topic=TOPIC, partition=0, engine=engine, **options)
        about = TOPIC if name == "snapshot" else f"{TOPIC}-0"
        own = kept.counted[: len(expected[name])]  # those after the compaction's belong to its verification
        assert [what for what, _, _ in own] == [f"{about}: {step}" for step in expected[name]]
        assert all(done == total > 0 for _, done, total in own), own

    counted("compact", jobs.compact, installs=True)
    counted("verify", jobs.verify)
    counted("snapshot", jobs.snapshot, out=str(data_dir.with_name("out")))


def test_each_step_counts_all_of_its_pieces(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")
    check_counts(None, stored_topic(tmp_path), HERE)


def test_on_spark_each_step_counts_all_of_its_pieces(spark: SparkSession, tmp_path: Path) -> None:
    check_counts(spark, stored_topic(tmp_path), ON_SPARK)
