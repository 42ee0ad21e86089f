"""`snapshot` as a Spark job."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from ..spark_errors import failures_translated
from ..stores.store import Store
from ..verify.key_audit import split
from .snapshot import (
    NEWEST,
    SnapshotResult,
    bucket_count,
    chosen,
    finished,
    keys_of,
    work_count,
    write_part,
)
from .snapshot_folder import replacing
from .snapshot_rounds import Round, Written, run_rounds

Batches = Iterator[pa.RecordBatch]

_BLOBS = pa.schema([("task", pa.int32()), ("data", pa.binary())])
_BLOBS_DDL = "task int, data binary"
_WRITTEN = pa.schema([("part", pa.int32()), ("chosen", pa.int64()), ("unfinished", pa.string())])
_WRITTEN_DDL = "part int, chosen bigint, unfinished string"


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
        SourceChangedError: Records went away meanwhile, otherwise than by a cleaner; nothing is left.
        SparkFailedError: The job failed for another reason; nothing is left.
    """

    application_id = spark.sparkContext.applicationId  # executors of a job that died may still write

    def run(of: Round, directory: str) -> list[Written]:
        count = bucket_count(of, at_least=spark.sparkContext.defaultParallelism) if buckets is None else buckets

        def find(batches: Batches) -> Batches:
            for batch in batches:
                for rows in (rows for number in batch.column(0).to_pylist() for rows in keys_of(of, number)):
                    for bucket, data in split(rows, count):
                        yield _blob(bucket, data)

        def choose(batches: Batches) -> Batches:
            rows = [np.frombuffer(data.as_py(), NEWEST) for batch in batches for data in batch.column(1)]
            for part, offsets in chosen(rows):
                yield _blob(part - of.first_part, offsets.tobytes())

        def write(batches: Batches) -> Batches:
            offsets: dict[int, list[np.ndarray]] = {}
            for batch in batches:
                for number, data in zip(*batch.columns, strict=True):
                    offsets.setdefault(number.as_py(), []).append(np.frombuffer(data.as_py(), np.int64))
            context = TaskContext.get()
            assert context is not None
            for number, found in sorted(offsets.items()):
                own = np.sort(np.concatenate(found))
                attempt = f"{application_id}-{context.taskAttemptId()}"
                done = write_part(of.tasks[number], of.first_part + number, own, directory, attempt=attempt)
                yield pa.RecordBatch.from_pylist([done._asdict()], schema=_WRITTEN)

        parts = spark.range(0, work_count(of), 1, max(1, work_count(of)))
        blobs = parts.mapInArrow(find, _BLOBS_DDL).repartitionById(count, "task")
        picked = blobs.mapInArrow(choose, _BLOBS_DDL).repartitionById(max(1, len(of.tasks)), "task")
        with failures_translated():
            return [Written(*row) for row in picked.mapInArrow(write, _WRITTEN_DDL).collect()]

    with replacing(out, overwrite=overwrite) as directory:
        return finished(out, directory, *run_rounds(Store(data_dir), topic, directory, run, partition=partition))


def _blob(task: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([task], pa.int32()), pa.array([data], pa.binary())], schema=_BLOBS)
