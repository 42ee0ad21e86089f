"""`verify` as jobs of a Spark session, two for each partition. What they find is what `verify.verify` finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from ...storage.disk.files import Files
from ..spark.blobs import BlobRows
from ..spark.tasks import Batches, collected, mapped, numbers, row, work
from .audit_scope import Scope, TxnSource
from .findings import VerifyReport
from .promises import Promises, Range
from .txn_audit import Marks, marks_of
from .verify import Judged, bucket_count, judge_blobs, judged_of, range_blobs, report_of

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])


def verify_on(
    spark: SparkSession, scopes: Iterable[Scope], files: Files, *, mode: str = "alone", buckets: int | None = None
) -> VerifyReport:
    """Judge on the workers.

    Args:
        files: The operating system's; workers read the same paths.
        buckets: How many parts the keys are judged in; unless given, as many as the cluster runs tasks at once, and
            enough that none has more than `verify.ROWS_A_BUCKET` rows.

    Raises:
        CorruptSourceError: The originals are damaged.
        SparkFailedError: A job failed for another reason.
    """
    partitions = []
    for scope in scopes:
        marks = read_marks(spark, scope.txn_sources, files)
        promises = scope.with_transactions([each.rows for each in marks])
        parts = bucket_count(marks, at_least=spark.sparkContext.defaultParallelism) if buckets is None else buckets
        judged = judge_ranges(spark, scope.ranges, promises, files, parts)
        partitions.append(report_of(scope, promises, judged, files))
    return VerifyReport(mode=mode, partitions=partitions)


def read_marks(spark: SparkSession, sources: Sequence[TxnSource], files: Files) -> list[Marks]:
    """The marks of each of these segments."""

    def read(batches: Batches) -> Batches:
        for number in numbers(batches):
            yield _BLOBS.row(number, data=marks_of(files, sources[number].segment).to_bytes())

    rows = collected(mapped(work(spark, len(sources)), read, _BLOBS.schema))
    return [Marks.from_bytes(bytes(row.data)) for row in sorted(rows, key=lambda each: each.task)]


def judge_ranges(
    spark: SparkSession, ranges: Sequence[Range], promises: Promises, files: Files, buckets: int
) -> Judged:
    """Judge all ranges, and the keys of all of them in so many buckets."""

    def scan(batches: Batches) -> Batches:
        for number in numbers(batches):
            for bucket, data in range_blobs(ranges[number], promises, files, buckets, number):
                yield _BLOBS.row(bucket, data=data)

    def judge(batches: Batches) -> Batches:
        for found in judge_blobs(((bucket, data) for (bucket,), data in _BLOBS.read(batches)), promises):
            yield row(_FOUND, bytes(found))

    blobs = _BLOBS.exchanged(work(spark, len(ranges)), scan, buckets)
    return judged_of((bytes(each.found) for each in collected(mapped(blobs, judge, _FOUND))), len(ranges))
