"""`verify` as jobs of a Spark session, two for each partition. What they find is what `verify.verify` finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import SparkSession

from ...storage.disk.files import Files
from ..records.fine_buckets import Buckets
from ..spark.blobs import BlobRows
from ..spark.tasks import Batches, collected, mapped, numbers, row, tasks_at_once, work
from .audit_scope import Scope, TxnSource
from .findings import VerifyReport
from .promises import Promises, Range
from .txn_audit import Marks, marks_of
from .verify import Judged, buckets_of, judge_blobs, judged_of, range_blobs, report_of

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])


def verify_on(
    spark: SparkSession, scopes: Iterable[Scope], files: Files, *, mode: str = "alone", buckets: Buckets | None = None
) -> VerifyReport:
    """Judge on the workers.

    Args:
        files: The operating system's; workers read the same paths.
        buckets: How many parts the keys are judged in; unless given, as `verify.buckets_of` says.

    Raises:
        CorruptSourceError: The originals are damaged.
        SparkFailedError: A job failed for another reason.
    """
    partitions = []
    for scope in scopes:
        marks = read_marks(spark, scope.txn_sources, files)
        promises = scope.with_transactions([each.rows for each in marks])
        parts = buckets_of(marks, len(scope.ranges), tasks_at_once(spark)) if buckets is None else buckets
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
    spark: SparkSession, ranges: Sequence[Range], promises: Promises, files: Files, buckets: Buckets
) -> Judged:
    """Judge all ranges, and the keys of all of them in so many buckets."""

    def scan(batches: Batches) -> Batches:
        each = (range_blobs(ranges[number], promises, files, buckets.coarse, number) for number in numbers(batches))
        yield from _BLOBS.rows(((bucket,), data) for bucket, data in chain.from_iterable(each))

    def judge(batches: Batches) -> Batches:
        blobs = ((bucket, data) for (bucket,), data in _BLOBS.read(batches))
        for found in judge_blobs(blobs, promises, buckets):
            yield row(_FOUND, bytes(found))

    blobs = _BLOBS.exchanged(work(spark, len(ranges)), scan, buckets.coarse)
    return judged_of((bytes(each.found) for each in collected(mapped(blobs, judge, _FOUND))), len(ranges))
