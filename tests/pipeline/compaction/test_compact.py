"""Compactions as Spark jobs, on real files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ottla.pipeline.compaction.compact import compact, dry_run, survey_on
from ottla.pipeline.compaction.group_results import GroupResult
from ottla.pipeline.compaction.plan import CompactionPlan, make_plan
from ottla.pipeline.compaction.staging import group_directory, save_plan
from ottla.pipeline.compaction.survey import survey_segments
from ottla.pipeline.errors import CorruptSourceError, SourceChangedError
from ottla.pipeline.records.fine_buckets import Buckets
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stored_log import open_log
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs.staged_segment import MANIFEST_FILE
from support.cleaner.cleaner_history import random_history
from support.disk.crash_files import CrashFiles
from support.pipeline.compaction_pair import CompactionPair, files_of
from support.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = (Buckets(2, 5), Buckets(2, 1))
PASSES = size(1, 4)
"""Number of passes: even such a small job takes two seconds."""
HISTORIES = size(3, 8)


def test_a_spark_jobs_output_is_the_servers_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    """The most varied plans of a history, each run by Spark on a copy of the disk."""
    found: list[tuple[int, CompactionPlan, CrashFiles]] = []

    class Collecting(CompactionPair):
        @staticmethod
        def compact(plan: CompactionPlan, files: CrashFiles) -> Sequence[GroupResult]:
            found.append((weight(plan), plan, files.copy()))
            return CompactionPair.compact(plan, files)

    for number in range(HISTORIES):
        random_history(f"spark {number}").run(Collecting)
    found.sort(key=lambda each: -each[0])
    for number, (_, plan, disk) in enumerate(found[:PASSES]):
        there = put_on_disk(disk, plan, tmp_path / str(number))
        results = compact(spark, there, buckets=BUCKETS[number % 2])
        here = CompactionPair.compact(plan, disk)
        assert results == here
        assert staged(OsFiles(), there) == staged(disk, plan)
        assert compact(spark, there) == results, "nothing is left to do, and nothing is done"


def weight(plan: CompactionPlan) -> int:
    state = sum(1 for source in plan.sources if any(source.transactions))
    return len(plan.groups) * len(plan.sources) * (1 + state) * (plan.sources[0].base_offset < plan.first_dirty_offset)


def put_on_disk(disk: CrashFiles, plan: CompactionPlan, directory: Path) -> CompactionPlan:
    """Write a data directory of `disk` to the file system; return the plan for it there."""
    data_dir = str(directory / "data")
    for path, data in disk.snapshot().items():
        if path.startswith(plan.data_dir + "/"):
            target = Path(data_dir + path.removeprefix(plan.data_dir))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            OsFiles().set_mtime_ms(str(target), disk.mtime_ms(path))
    moved = replace(plan, data_dir=data_dir)
    save_plan(OsFiles(), moved)
    return moved


def staged(files: OsFiles | CrashFiles, plan: CompactionPlan) -> dict[str, dict[str, tuple[bytes, int]]]:
    """Return the finished groups: directory -> name -> (bytes, modification time of a segment's file)."""
    found = {}
    for group in range(len(plan.groups)):
        directory = group_directory(plan, group)
        contents = files_of(files, [f"{directory}/{name}" for name in files.list(directory)])
        contents[MANIFEST_FILE] = contents[MANIFEST_FILE][0], 0
        found[directory.removeprefix(plan.staging)] = contents
    return found


def plan_of_two_segments(directory: Path) -> CompactionPlan:
    """Write `a` twice and `b` once to two sealed segments of one batch each, on disk; return their plan."""
    plans = []

    class Planning(CompactionPair):
        @staticmethod
        def compact(plan: CompactionPlan, files: CrashFiles) -> Sequence[GroupResult]:
            plans.append(put_on_disk(files, plan, directory))
            return CompactionPair.compact(plan, files)

    pair = Planning()
    pair.write([(b"a", b"1"), (b"b", b"1")])
    pair.roll()
    pair.write([(b"a", b"2")])
    pair.roll()
    pair.compare(None)
    return plans[0]


def test_a_dry_run_reports_removals_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of_two_segments(tmp_path)
    (preview,) = dry_run(spark, plan)
    assert [path.name for path in Path(plan.staging).iterdir()] == ["plan.json"]
    (result,) = compact(spark, plan)
    assert preview == replace(result, files={}) and result.removed["superseded"] == 1


def test_a_damaged_batch_ends_the_job_with_its_position(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of_two_segments(tmp_path)
    log = Path(plan.directory, "00000000000000000002.log")
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    with pytest.raises(
        CorruptSourceError, match=rf"^{log}, byte 0, offset 2: expected a batch with the CRC 0x.*, found 0x"
    ):
        compact(spark, plan)


def test_a_segment_that_differs_from_the_plan_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_of_two_segments(tmp_path)
    log = Path(plan.directory, "00000000000000000002.log")
    log.unlink()
    with pytest.raises(SourceChangedError, match=rf"^{log}: expected a segment of plan {plan.plan_id}, found no file$"):
        compact(spark, plan)


def test_segments_surveyed_by_spark_give_the_same_plan(spark: SparkSession, tmp_path: Path) -> None:
    planned = plan_of_two_segments(tmp_path)
    store = Store(planned.data_dir)
    with open_log(store, planned.topic_partition, now_ms=planned.now_ms) as log:
        plans = [
            make_plan(
                log,
                data_dir=store.data_dir,
                checkpoint=log.cleaner_checkpoint,
                now_ms=planned.now_ms,
                secret=planned.secret,
                survey=survey,
            )
            for survey in (survey_segments, survey_on(spark))
        ]
    assert plans == [planned, planned]
