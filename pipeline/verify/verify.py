"""Check that a log keeps compaction's promises, by itself or against its originals.

    scope     segments to judge, and what is promised of them                            driver
    marks     the transactional batches of every segment, and how many records it has    a task a segment
    ranges    batches, indexes, records; and a row for each key                          a task a segment
    keys      the rows of one bucket of hashes, merged and judged                        a task a coarse bucket

`judge_here` does this in this process, `verify_jobs.judge_on` as jobs of a Spark session, with the same findings. Neither uses
any of the code that compacts.

Memory of a task, however large the log: for a range see `range_audit`; for a fine bucket that of merging ROWS_A_BUCKET
rows (`key_audit`), 260 MB. A coarse bucket with several fine ones also uses Spark's local disks, 49 bytes for each row
(`records.fine_buckets`). On the driver 25 bytes for each transactional batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...storage.disk.files import Buffer, Files
from ..records.fine_buckets import Buckets, Parted, buckets_for
from ..records.key_hashes import by_bucket
from ..steps import UNWATCHED, Watch
from .audit_scope import Scope
from .findings import FINDINGS_MAX, Finding, PartitionReport, VerifyReport, in_order
from .key_audit import KEY_ROW, LEFT, KeyRows, Verdict, from_bytes, judge, merge
from .log_view import record_key
from .promises import JudgedRange, Promises
from .range_audit import RangeResult, audit_range
from .txn_audit import Marks, marks_of

ROWS_A_BUCKET = 1 << 20
"""Limit of key rows that one task judges, if every record has a key of its own."""


class JudgedStore(NamedTuple):
    """Results of all ranges and buckets."""

    results: list[RangeResult]
    verdicts: list[tuple[int, list[Verdict]]]
    """Number of broken promises of each bucket, and the first ones."""


def judge_here(scope: Scope, files: Files, watch: Watch) -> tuple[Promises, JudgedStore]:
    """Judge one range after the other.

    Memory: 49 bytes for each key of each range of a partition, in addition to that of a task of `verify_jobs`.
    """
    ranges = scope.ranges
    marks = [marks_of(files, source.segment) for source in scope.txn_sources]
    promises = scope.with_transactions([each.rows for each in marks])
    buckets = buckets_of(marks, len(ranges))
    # Everything is in memory: the same number of buckets, none of them divided further.
    whole, verified = Buckets(buckets.coarse * buckets.fine, 1), watch.step("segments verified", len(ranges))

    def blobs() -> Iterator[tuple[int, bytes]]:
        for number, of in enumerate(ranges):
            yield from range_blobs(of, promises, files, whole.coarse, number)
            verified(1)

    return promises, judged_of(judge_blobs(blobs(), promises, whole), len(ranges))


Judging = Callable[[Scope, Files, Watch], tuple[Promises, JudgedStore]]
"""Function that judges one partition: `judge_here`, or `verify_jobs.judge_on` a session."""


def verify(
    scopes: Iterable[Scope],
    files: Files,
    judge_scope: Judging = judge_here,
    *,
    mode: str = "alone",
    watch: Watch = UNWATCHED,
) -> VerifyReport:
    """Judge these scopes, by default in this process.

    Args:
        files: The operating system's, or a store's; workers read the same.
        watch: Receives the progress.

    Raises:
        CorruptSourceError: The originals are damaged.
        PipelineError: A job failed for another reason.
    """
    partitions = []
    for scope in scopes:
        watch.begin(str(scope.tp))
        promises, judged = judge_scope(scope, files, watch)
        partitions.append(report_of(scope, promises, judged, files))
    return VerifyReport(mode=mode, partitions=partitions)


def range_blobs(
    of: JudgedRange, promises: Promises, files: Files, buckets: int, number: int
) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, blob) of a range: the rows of its keys, and one blob with the pickled result."""
    audit = audit_range(of, promises, files)
    while True:
        try:
            keys = next(audit)
        except StopIteration as done:
            yield number % buckets, b"\0" + pickle.dumps((number, done.value))
            return
        for bucket, data in by_bucket(keys, buckets):
            yield bucket, b"\1" + data


def judge_blobs(blobs: Iterable[tuple[int, Buffer]], promises: Promises, buckets: Buckets) -> Iterator[Buffer]:
    """Judge the blobs of some coarse buckets, complete for each of them: yields pickled results of ranges, and verdicts."""
    rows: dict[int, Parted] = {}
    held_bytes, fine = ROWS_A_BUCKET * KEY_ROW.itemsize, np.uint64(buckets.fine)
    has_versions = promises.version_source is not None
    for bucket, data in blobs:
        if data[0]:
            own = from_bytes(memoryview(data)[1:], has_versions)
            put_by = rows.setdefault(bucket, Parted(buckets.fine, held_bytes))
            put_by.add(buckets.bucket_numbers(own["high"]) % fine, (own,))
        else:
            yield data[1:]
    while rows:
        for (keys,) in rows.popitem()[1].each():
            yield pickle.dumps((-1, _judged(keys, promises)))


def _judged(rows: KeyRows, promises: Promises) -> tuple[int, list[Verdict]]:
    return judge(merge([rows]), dirty_from=promises.dirty_from, at_most=FINDINGS_MAX)


def buckets_of(marks: Iterable[Marks], ranges: int, at_once: int = 1) -> Buckets:
    """Return the number of buckets for a cluster that runs `at_once` tasks at a time. Findings do not depend on it."""
    rows = sum(each.record_count for each in marks)
    return buckets_for(rows * KEY_ROW.itemsize, ranges, ROWS_A_BUCKET * KEY_ROW.itemsize, at_once)


def judged_of(found: Iterable[Buffer], ranges: int) -> JudgedStore:
    """Combine the output of `judge_blobs` for this number of ranges."""
    results: dict[int, RangeResult] = {}
    verdicts = []
    for number, result in map(pickle.loads, found):
        if number >= 0:
            results[number] = result
        else:
            verdicts.append(result)
    return JudgedStore([results[number] for number in range(ranges)], verdicts)


def report_of(scope: Scope, promises: Promises, judged: JudgedStore, files: Files) -> PartitionReport:
    """Return the report of a partition. Keys of verdicts are looked up in the files."""
    results = judged.results
    findings = scope.as_a_whole(promises, results)
    count = len(findings) + sum(result.finding_count for result in results)
    findings += [finding for result in results for finding in result.findings]
    verdicts = sorted((each for _, found in judged.verdicts for each in found), key=lambda each: each.offset)
    named = [_finding_of(verdict, scope.ranges, files) for verdict in verdicts[:FINDINGS_MAX]]
    return PartitionReport(
        topic=scope.tp.topic,
        partition=scope.tp.partition,
        segments=len(scope.ranges),
        batches=sum(result.batches for result in results),
        records=sum(result.records for result in results),
        bytes=sum(result.bytes for result in results),
        records_before=sum(result.records_before for result in results),
        torn_bytes=sum(result.torn_bytes for result in results),
        finding_count=count + sum(count for count, _ in judged.verdicts),
        findings=in_order([*findings, *named])[:FINDINGS_MAX],
    )


def _finding_of(verdict: Verdict, ranges: Sequence[JudgedRange], files: Files) -> Finding:
    """Look up the record of a verdict, as only its key's hash is known."""
    of = next(each for each in ranges if verdict.offset < each.segment.end_offset)
    segments = [of.segment] if verdict.rule == LEFT else [*of.before, of.segment]
    file, position, key = record_key(files, segments, verdict.offset)
    if verdict.rule == LEFT:
        expected, actual = f"only its key's newest record, at offset {verdict.other}", "also this one"
    else:
        expected, actual = "this record, or a newer one of its key", "neither"
        file, position = of.segment.log_path, position if file == of.segment.log_path else None
    return Finding(verdict.rule, file, position, verdict.offset, expected, actual, key)
