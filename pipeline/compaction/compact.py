"""A compaction on Spark: the stages of `exchange` and `rewrite` as the tasks of one job.

    segments  --scan-->  blobs by bucket  --merge-->  blobs by group  --rewrite-->  a line for each group
              stage 1    exchanged        stage 2     exchanged       stage 3

Rows are blobs, as many as `records.fine_buckets` says: linear in the data, and few.

Tasks read the plan from its staging directory and the segments from the data directory, so both must have the same path
on every worker. A worker needs the memory that the stages document for one segment, bucket or group, times
the tasks that it runs at once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from socket import gethostname

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.os_files import OsFiles
from ..errors import SparkFailedError, UsageError
from ..records.fine_buckets import Buckets
from ..spark.blobs import BlobRows
from ..spark.task_logs import logged
from ..spark.tasks import Batches, Task, attempt_of, collected, mapped, numbers, row, tasks_at_once, work
from ..steps import UNWATCHED, Add, Watch
from ..stores.reading_files import ReadingFiles
from .exchange import Blob, buckets_of, merge_buckets, scan_source
from .group_results import GroupResult, check_finished_group, finished_group
from .plan import CompactionPlan
from .rewrite import by_group, finished_or_rewritten, preview_groups, remove_attempts
from .staging import group_directory, load_plan
from .survey import Survey, Surveying, survey_segment

TASK_BYTES = 256 << 20
"""Segment bytes for each task, if the segments are many more than the cluster's concurrent tasks.

A task's overhead in Spark equals about 20 MB of work.
"""

STAGES = "segments scanned, keys merged, groups rewritten"
"""Name in Spark's UI of a job with all three stages."""

_BLOBS = BlobRows("source", "kind")
_RESULTS = pa.schema([("manifest", pa.string())])
_SURVEYS = pa.schema(
    [
        ("id", pa.int32()),
        ("crc", pa.int64()),
        ("records", pa.int64()),
        ("next", pa.int64()),
        ("transactional", pa.binary()),
    ]
)


def compact(
    spark: SparkSession, plan: CompactionPlan, *, buckets: Buckets | None = None, watch: Watch = UNWATCHED
) -> list[GroupResult]:
    """Run a saved plan and return the result of each group, in order.

    Finished groups are kept, so that a call after an error continues where the earlier one stopped.

    Args:
        buckets: Number of parts in which keys are merged; the default is `exchange.buckets_of`.
        watch: Receives the progress.

    Raises:
        CorruptSourceError, SourceChangedError: As the stages do.
        SparkFailedError: The job failed for another reason.
    """
    files = OsFiles()
    results = _finished_results(spark, plan, files, watch)
    missing = frozenset(range(len(plan.groups))) - results.keys()
    if missing:
        dead = _superseded(spark, plan, missing, buckets, watch)
        written = watch.step("groups written", len(missing))
        for result in _results(dead, _rewrite(plan.staging, spark.sparkContext.applicationId, written), STAGES):
            results[result.group] = result
    remove_attempts(plan, files)
    return [result for _, result in sorted(results.items())]


def dry_run(spark: SparkSession, plan: CompactionPlan, *, watch: Watch = UNWATCHED) -> list[GroupResult]:
    """Return what `compact` would return for a saved plan, without writing a file.

    Arguments and errors are those of `compact`.
    """
    if not plan.groups:
        return []
    dead = _superseded(spark, plan, frozenset(range(len(plan.groups))), None, watch)
    previewed = watch.step("groups counted", len(plan.groups))
    return sorted(_results(dead, _preview(plan.staging, previewed), STAGES), key=lambda result: result.group)


def _finished_results(spark: SparkSession, plan: CompactionPlan, files: Files, watch: Watch) -> dict[int, GroupResult]:
    """Return the finished groups. The driver reads their manifests, the workers check the files next to these."""
    said = [group for group in range(len(plan.groups)) if finished_group(plan, group, files) is not None]
    if not said:
        return {}
    looked = watch.step("finished groups read", len(said))
    checked = _results(work(spark, len(said)), _check(plan.staging, said, looked), "finished groups")
    return {result.group: result for result in checked}


def _results(dead: DataFrame, task: Task, what: str) -> list[GroupResult]:
    return [GroupResult.from_json(each.manifest) for each in collected(mapped(dead, task, _RESULTS), what)]


def _superseded(
    spark: SparkSession, plan: CompactionPlan, groups: frozenset[int], buckets: Buckets | None, watch: Watch
) -> DataFrame:
    """Run stages 1 and 2: return the blobs of these groups, each group in one partition."""
    at_once = tasks_at_once(spark)
    if buckets is None:
        buckets = buckets_of(plan, at_once)
    tasks = max(2 * at_once, -(-plan.size_bytes // TASK_BYTES))
    scanned = watch.step("segments scanned", len(plan.sources))
    merged = watch.step("buckets merged", buckets.coarse)
    scan, merge = _scan(plan.staging, buckets.coarse, scanned), _merge(plan.staging, groups, buckets, merged)
    blobs = _BLOBS.exchanged(work(spark, len(plan.sources), tasks), scan, buckets.coarse)
    return _BLOBS.exchanged(blobs, merge, min(tasks, len(plan.groups)))


def survey_on(spark: SparkSession, watch: Watch = UNWATCHED) -> Surveying:
    """Return the `survey` of `make_plan` as a Spark job, for logs whose headers take the driver too long."""

    def survey(_files: Files, directory: str, base_offsets: Sequence[int]) -> Sequence[Survey]:
        bases = list(base_offsets)
        surveyed = watch.step("segments' headers read", len(bases))

        def task(batches: Batches) -> Batches:
            for number in numbers(batches):
                with logged(f"headers of {paths.log_path(directory, bases[number])}"):
                    yield row(_SURVEYS, number, *survey_segment(ReadingFiles(), directory, bases[number]))
                surveyed(1)

        rows = collected(mapped(work(spark, len(bases)), task, _SURVEYS))
        return [
            Survey(each.crc, each.records, each.next, bytes(each.transactional))
            for each in sorted(rows, key=lambda each: each.id)
        ]

    return survey


def _scan(staging: str, buckets: int, scanned: Add) -> Task:
    def scan(batches: Batches) -> Batches:
        plan = _plan(staging)
        yield from _blob_rows(chain.from_iterable(blobs_of(plan, number) for number in numbers(batches)))

    def blobs_of(plan: CompactionPlan, number: int) -> Iterator[Blob]:
        path = paths.log_path(plan.directory, plan.sources[number].base_offset)
        with logged(f"{plan.topic_partition}: scan of {path}"):
            yield from scan_source(plan, number, ReadingFiles(), buckets=buckets)
        scanned(1)

    return scan


def _merge(staging: str, groups: frozenset[int], buckets: Buckets, merged: Add) -> Task:
    def merge(batches: Batches) -> Batches:
        plan = _plan(staging)
        with logged(f"{plan.topic_partition}: merge of a bucket of {buckets.coarse}"):
            found = merge_buckets(plan, _blobs(batches), buckets)
            yield from _blob_rows(blob for blob in found if blob.task in groups)
        merged(1)

    return merge


def _rewrite(staging: str, application_id: str, written: Add) -> Task:
    def rewrite(batches: Batches) -> Batches:
        plan, attempt = _plan(staging), attempt_of(application_id)
        for group, blobs in by_group(_blobs(batches)):
            with logged(f"{plan.topic_partition}: rewrite of {group_directory(plan, group)}"):
                result = finished_or_rewritten(
                    plan, group, blobs, source_files=ReadingFiles(), files=OsFiles(), attempt=attempt
                )
            written(1)
            yield row(_RESULTS, result.to_json())

    return rewrite


def _check(staging: str, groups: Sequence[int], looked: Add) -> Task:
    def check(batches: Batches) -> Batches:
        for number in numbers(batches):
            if (found := check_finished_group(_plan(staging), groups[number], ReadingFiles())) is not None:
                yield row(_RESULTS, found.to_json())
            looked(1)

    return check


def _preview(staging: str, previewed: Add) -> Task:
    def preview(batches: Batches) -> Batches:
        for result in preview_groups(_plan(staging), _blobs(batches), source_files=ReadingFiles()):
            yield row(_RESULTS, result.to_json())
            previewed(1)

    return preview


@lru_cache(maxsize=4)
def _plan(staging: str) -> CompactionPlan:
    """Load a plan, once in each worker process. A path's plan never changes, as a plan's id is a hash of it."""
    gc.freeze()  # PySpark collects garbage after every task, which takes 20 ms for long-lived modules
    try:
        return load_plan(ReadingFiles(), staging)
    except (UsageError, FileNotFoundError) as error:  # the driver could read it
        raise SparkFailedError(
            f"worker {gethostname()}: {error}; the data directory and {os.path.dirname(staging)} must be on all workers,"
            " at the same paths"
        ) from error


def _blob_rows(blobs: Iterable[Blob]) -> Batches:
    return _BLOBS.rows((blob[:-1], blob.data) for blob in blobs)


def _blobs(batches: Batches) -> Iterator[Blob]:
    return (Blob(task, source, kind, data) for (task, source, kind), data in _BLOBS.read(batches))
