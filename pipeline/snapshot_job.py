"""`snapshot` as a Spark job."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from .key_audit import split
from .snapshot import (
    NEWEST,
    SnapshotResult,
    bucket_count,
    chosen,
    newest_of,
    parts_of,
    replacing,
    result,
    write_part,
)
from .spark_errors import failures_translated
from .store import Store

Batches = Iterator[pa.RecordBatch]

_BLOBS = pa.schema([("task", pa.int32()), ("data", pa.binary())])
_BLOBS_DDL = "task int, data binary"
_KEYS = pa.schema([("count", pa.int64())])


def snapshot(
    spark: SparkSession,
    data_dir: str,
    topic: str,
    out: str,
    *,
    partition: int | None = None,
    overwrite: bool = False,
    buckets: int | None = None,
) -> SnapshotResult:
    """Write the latest value of each key of a topic to Parquet; see `pipeline.snapshot`.

    Args:
        out: A folder that all workers share.
        buckets: How many parts the keys are chosen in; unless given, as many as the cluster runs tasks at once, and
            enough that none has more than `snapshot.ROWS_A_BUCKET` rows.

    Raises:
        UsageError: There is no such log; or `out` is there, and `overwrite` is not wanted.
        CorruptSourceError: A log is damaged; nothing is left.
        SparkFailedError: The job failed for another reason; nothing is left.
    """
    with replacing(out, overwrite=overwrite) as directory:
        tasks = parts_of(Store(data_dir), topic, partition)
        count = bucket_count(tasks, at_least=spark.sparkContext.defaultParallelism) if buckets is None else buckets

        def find(batches: Batches) -> Batches:
            for batch in batches:
                for rows in (
                    rows for number in batch.column(0).to_pylist() for rows in newest_of(tasks[number], number)
                ):
                    for bucket, data in split(rows, count):
                        yield _blob(bucket, data)

        def choose(batches: Batches) -> Batches:
            rows = [np.frombuffer(data.as_py(), NEWEST) for batch in batches for data in batch.column(1)]
            for part, offsets in chosen(rows):
                yield _blob(part, offsets.tobytes())

        def write(batches: Batches) -> Batches:
            offsets: dict[int, list[np.ndarray]] = {}
            for batch in batches:
                for part, data in zip(*batch.columns, strict=True):
                    offsets.setdefault(part.as_py(), []).append(np.frombuffer(data.as_py(), np.int64))
            context = TaskContext.get()
            assert context is not None
            for part, found in sorted(offsets.items()):
                attempt = str(context.taskAttemptId())
                keys = write_part(tasks[part], part, np.sort(np.concatenate(found)), directory, attempt=attempt)
                yield pa.RecordBatch.from_arrays([pa.array([keys])], schema=_KEYS)

        parts = spark.range(0, len(tasks), 1, max(1, len(tasks)))
        blobs = parts.mapInArrow(find, _BLOBS_DDL).repartitionById(count, "task")
        picked = blobs.mapInArrow(choose, _BLOBS_DDL).repartitionById(max(1, len(tasks)), "task")
        with failures_translated():
            keys = sum(row[0] for row in picked.mapInArrow(write, "count bigint").collect())
    return result(out, keys, tasks)


def _blob(task: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([task], pa.int32()), pa.array([data], pa.binary())], schema=_BLOBS)
