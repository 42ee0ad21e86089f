"""`verify` as jobs of a Spark session, two for each partition. What they find is what `verify.judge_here` finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
from pyspark.sql import SparkSession

from ...storage.disk.files import Files
from ..records.fine_buckets import Buckets
from ..spark.blobs import BlobRows
from ..spark.task_logs import logged
from ..spark.tasks import Batches, collected, mapped, numbers, row, tasks_at_once, work
from ..steps import Watch
from .audit_scope import Scope, TxnSource
from .promises import Promises
from .txn_audit import Marks, marks_of
from .verify import JudgedStore, Judging, buckets_of, judge_blobs, judged_of, range_blobs

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])


def judge_on(spark: SparkSession) -> Judging:
    """The judging of `verify` on the workers of a session."""

    def judge(scope: Scope, files: Files, watch: Watch) -> tuple[Promises, JudgedStore]:
        marks = read_marks(spark, scope, files, watch)
        promises = scope.with_transactions([each.rows for each in marks])
        buckets = buckets_of(marks, len(scope.ranges), tasks_at_once(spark))
        return promises, judge_ranges(spark, scope, promises, files, buckets, watch)

    return judge


def read_marks(spark: SparkSession, scope: Scope, files: Files, watch: Watch) -> list[Marks]:
    """The marks of each of its segments."""
    sources: Sequence[TxnSource] = scope.txn_sources
    tp, done = scope.tp, watch.step("segments' transactions read", len(sources))

    def read(batches: Batches) -> Batches:
        for number in numbers(batches):
            with logged(f"{tp}: transactions of {sources[number].segment.log_path}"):
                yield _BLOBS.row(number, data=marks_of(files, sources[number].segment).to_bytes())
            done(1)

    rows = collected(mapped(work(spark, len(sources)), read, _BLOBS.schema), f"transactions of {tp}")
    return [Marks.from_bytes(bytes(row.data)) for row in sorted(rows, key=lambda each: each.task)]


def judge_ranges(
    spark: SparkSession, scope: Scope, promises: Promises, files: Files, buckets: Buckets, watch: Watch
) -> JudgedStore:
    """Judge all ranges, and the keys of all of them in so many buckets."""
    tp, ranges = scope.tp, scope.ranges
    verified = watch.step("segments verified", len(ranges))
    judged = watch.step("buckets of keys judged", buckets.coarse)

    def scan(batches: Batches) -> Batches:
        each = chain.from_iterable(blobs_of(number) for number in numbers(batches))
        yield from _BLOBS.rows(((bucket,), data) for bucket, data in each)

    def blobs_of(number: int) -> Iterator[tuple[int, bytes]]:
        with logged(f"{tp}: verify {ranges[number].segment.log_path}"):
            yield from range_blobs(ranges[number], promises, files, buckets.coarse, number)
        verified(1)

    def judge(batches: Batches) -> Batches:
        blobs = ((bucket, data) for (bucket,), data in _BLOBS.read(batches))
        with logged(f"{tp}: keys of a bucket of {buckets.coarse}"):
            for found in judge_blobs(blobs, promises, buckets):
                yield row(_FOUND, bytes(found))
        judged(1)

    blobs = _BLOBS.exchanged(work(spark, len(ranges)), scan, buckets.coarse)
    rows = collected(mapped(blobs, judge, _FOUND), f"segments and keys of {tp}")
    return judged_of((bytes(each.found) for each in rows), len(ranges))
