"""A compaction on Spark: the stages of `exchange` and `rewrite` as the tasks of one job.

    segments  --scan-->  blobs by bucket  --merge-->  blobs by group  --rewrite-->  a line for each group
              stage 1    repartitionById  stage 2     repartitionById  stage 3

Rows are blobs: as many as segments and buckets multiply to, however many records there are. Both exchanges name their
partitions by number (`repartitionById`), for anything else would be coalesced to a task or two: the blobs are small
where the work they stand for is not.

Tasks read the plan from its staging directory and the segments from the data directory, so both must have the same path
on every worker. What a worker needs of memory is what the stages say of one segment, one bucket or one group, times
the tasks that it runs at once.
"""

from __future__ import annotations

import gc
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from socket import gethostname

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from ...storage.disk.files import Files, OsFiles
from ..errors import SparkFailedError, UsageError
from ..spark_errors import failures_translated
from ..stores.store import ReadingFiles
from .exchange import Blob, bucket_count, merge_buckets, scan_source
from .plan import CompactionPlan
from .preview import preview_groups
from .rewrite import GroupResult, finished_group, remove_attempts, rewrite_groups
from .staging import load_plan
from .survey import Survey, survey_segment

TASK_BYTES = 256 << 20
"""Of segments for each task, where there are many more of these than the cluster runs tasks at once: what a task costs
Spark by itself is as much as 20 MB of work."""

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

_BLOBS = pa.schema([("task", pa.int32()), ("source", pa.int32()), ("kind", pa.int32()), ("data", pa.binary())])
_BLOBS_DDL = "task int, source int, kind int, data binary"
_RESULTS = pa.schema([("manifest", pa.string())])
_RESULTS_DDL = "manifest string"
_SURVEYS = pa.schema(
    [
        ("id", pa.int32()),
        ("crc", pa.int64()),
        ("records", pa.int64()),
        ("next", pa.int64()),
        ("transactional", pa.binary()),
    ]
)
_SURVEYS_DDL = "id int, crc bigint, records bigint, next bigint, transactional binary"


def compact(spark: SparkSession, plan: CompactionPlan, *, buckets: int | None = None) -> list[GroupResult]:
    """Run a plan that lies in its staging directory; returns what became of each group, in order.

    Args:
        buckets: How many parts the keys are merged in; unless given, as many as the cluster runs tasks at once, and
            enough that none has more than `exchange.BUCKET_BYTES`.

    Groups that are finished already are left as they are, so calling again after an error goes on where it stopped.

    Raises:
        CorruptSourceError, SourceChangedError: As the stages do.
        SparkFailedError: The job failed for another reason.
    """
    files = OsFiles()
    results = {group: finished_group(plan, group, files) for group in range(len(plan.groups))}
    missing = frozenset(group for group, result in results.items() if result is None)
    if missing:
        dead = _superseded(spark, plan, missing, buckets)
        made = dead.mapInArrow(_rewrite(plan.staging, spark.sparkContext.applicationId), _RESULTS_DDL)
        with failures_translated():
            rows = made.collect()
        for row in rows:
            result = GroupResult.from_json(row.manifest)
            results[result.group] = result
    remove_attempts(plan, files)
    return [result for _, result in sorted(results.items()) if result is not None]


def dry_run(spark: SparkSession, plan: CompactionPlan, *, buckets: int | None = None) -> list[GroupResult]:
    """What `compact` would return for a plan that lies in its staging directory, without files: none is written.

    Arguments and errors as above.
    """
    if not plan.groups:
        return []
    dead = _superseded(spark, plan, frozenset(range(len(plan.groups))), buckets)
    with failures_translated():
        rows = dead.mapInArrow(_preview(plan.staging), _RESULTS_DDL).collect()
    return sorted((GroupResult.from_json(row.manifest) for row in rows), key=lambda result: result.group)


def _superseded(spark: SparkSession, plan: CompactionPlan, groups: frozenset[int], buckets: int | None) -> DataFrame:
    """Stages 1 and 2: the blobs of these groups, each group in one partition."""
    at_once = spark.sparkContext.defaultParallelism
    if buckets is None:
        buckets = bucket_count(plan, at_least=at_once)
    tasks = max(2 * at_once, -(-plan.size_bytes // TASK_BYTES))
    segments = spark.range(0, len(plan.sources), 1, min(tasks, len(plan.sources)))
    blobs = segments.mapInArrow(_scan(plan.staging, buckets), _BLOBS_DDL).repartitionById(buckets, "task")
    return blobs.mapInArrow(_merge(plan.staging, groups), _BLOBS_DDL).repartitionById(
        min(tasks, len(plan.groups)), "task"
    )


def survey_on(spark: SparkSession) -> Callable[[Files, str, Sequence[int]], list[Survey]]:
    """The `survey` of `make_plan` as a Spark job, for logs whose headers alone take the driver too long."""

    def survey(_files: Files, directory: str, base_offsets: Sequence[int]) -> list[Survey]:
        bases = list(base_offsets)

        def task(batches: Batches) -> Batches:
            for number in _numbers(batches):
                yield _row(_SURVEYS, number, *survey_segment(ReadingFiles(), directory, bases[number]))

        segments = spark.range(0, len(bases), 1, max(1, len(bases)))
        with failures_translated():
            rows = segments.mapInArrow(task, _SURVEYS_DDL).collect()
        return [
            Survey(row.crc, row.records, row.next, bytes(row.transactional))
            for row in sorted(rows, key=lambda row: row.id)
        ]

    return survey


def _scan(staging: str, buckets: int) -> Task:
    def scan(batches: Batches) -> Batches:
        plan = _plan(staging)
        for number in _numbers(batches):
            for blob in scan_source(plan, number, ReadingFiles(), buckets=buckets):
                yield _blob_row(blob)

    return scan


def _merge(staging: str, groups: frozenset[int]) -> Task:
    def merge(batches: Batches) -> Batches:
        for blob in merge_buckets(_plan(staging), _blobs(batches)):
            if blob.task in groups:
                yield _blob_row(blob)

    return merge


def _rewrite(staging: str, application_id: str) -> Task:
    def rewrite(batches: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None
        results = rewrite_groups(
            _plan(staging),
            _blobs(batches),
            source_files=ReadingFiles(),
            files=OsFiles(),
            attempt=f"{application_id}-{context.taskAttemptId()}",
        )
        for result in results:
            yield _row(_RESULTS, result.to_json())

    return rewrite


def _preview(staging: str) -> Task:
    def preview(batches: Batches) -> Batches:
        for result in preview_groups(_plan(staging), _blobs(batches), source_files=ReadingFiles()):
            yield _row(_RESULTS, result.to_json())

    return preview


@lru_cache(maxsize=4)
def _plan(staging: str) -> CompactionPlan:
    """Once for each worker process; what a path names never changes, for a plan's id is a hash of it."""
    gc.freeze()  # PySpark collects garbage after every task, which takes 20 ms for modules that stay
    try:
        return load_plan(ReadingFiles(), staging)
    except (UsageError, FileNotFoundError) as error:  # the driver could
        raise SparkFailedError(
            f"worker {gethostname()}: {error}; the data directory and {os.path.dirname(staging)} must be on all workers,"
            " at the same paths"
        ) from error


def _row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _blob_row(blob: Blob) -> pa.RecordBatch:
    """Without a copy of the data."""
    *numbers, data = blob
    edges = pa.py_buffer(struct.pack("=ii", 0, len(data)))
    columns = [pa.array([number], pa.int32()) for number in numbers]
    columns.append(pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(data)]))
    return pa.RecordBatch.from_arrays(columns, schema=_BLOBS)


def _blobs(batches: Batches) -> Iterator[Blob]:
    """Without a copy of the data."""
    for batch in batches:
        numbers = (column.to_pylist() for column in batch.columns[:3])
        for task, source, kind, data in zip(*numbers, batch.column(3), strict=True):
            yield Blob(task, source, kind, memoryview(data.as_buffer()))


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
