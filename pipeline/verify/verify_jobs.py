"""The stages of `verify` as Spark jobs: rows are blobs, as few as segments and buckets multiply to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ...storage.disk.files import Files
from ..spark_errors import failures_translated
from .audit_scope import TxnSource
from .findings import ROW_DDL, VerifyReport
from .promises import Promises, Range
from .txn_audit import Marks, marks_of
from .verify import Judged, judge_blobs, judged_of, range_blobs

Batches = Iterator[pa.RecordBatch]

_BLOBS = pa.schema([("bucket", pa.int32()), ("data", pa.binary())])
_BLOBS_DDL = "bucket int, data binary"
_DATA = pa.schema([("data", pa.binary())])


def read_marks(spark: SparkSession, sources: Sequence[TxnSource], files: Files) -> list[Marks]:
    """The marks of each of these segments."""

    def task(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _blob(number, marks_of(files, sources[number].segment).to_bytes())

    segments = spark.range(0, len(sources), 1, max(1, len(sources)))
    with failures_translated():
        rows = segments.mapInArrow(task, _BLOBS_DDL).collect()
    return [Marks.from_bytes(bytes(row.data)) for row in sorted(rows, key=lambda row: row.bucket)]


def judge_ranges(
    spark: SparkSession, ranges: Sequence[Range], promises: Promises, files: Files, buckets: int
) -> Judged:
    """Judge all ranges, and the keys of all of them in so many buckets."""

    def scan(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for bucket, data in range_blobs(ranges[number], promises, files, buckets, number):
                    yield _blob(bucket, data)

    def merge(batches: Batches) -> Batches:
        blobs = (
            (bucket.as_py(), data.as_py()) for batch in batches for bucket, data in zip(*batch.columns, strict=True)
        )
        for found in judge_blobs(blobs, promises):
            yield pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], schema=_DATA)

    work = spark.range(0, len(ranges), 1, max(1, len(ranges)))
    # By number: anything else would be coalesced to a task or two, or put two buckets into one.
    blobs = work.mapInArrow(scan, _BLOBS_DDL).repartitionById(buckets, "bucket")
    with failures_translated():
        rows = blobs.mapInArrow(merge, "data binary").collect()
    return judged_of((bytes(row.data) for row in rows), len(ranges))


def _blob(bucket: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([bucket], pa.int32()), pa.array([data], pa.binary())], schema=_BLOBS)


def findings_frame(spark: SparkSession, report: VerifyReport) -> DataFrame:
    """The named findings of a report, one row each."""
    return spark.createDataFrame(report.rows(), ROW_DDL)
