"""Check over the wire that a topic is compacted as promised, with the limits of that.

    below the clean end     each key has one record, and each record a key
    tombstones              one that was cleaned is removed after delete.retention.ms and another pass

No protocol reports the cleaner's position. It is known (`Known`) in three ways. The caller knows it. Or all records are cleaned
within a time (max.compaction.lag.ms, or the caller's), if timestamps are those of the appends. Or no producer uses
transactions, whose markers are also offsets without records: then it is the last missing offset. The report says what was not
known.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ..records.key_hashes import ROWS_AT_ONCE, by_bucket, merged_as_they_come
from ..spark.blobs import BlobRows
from ..spark.tasks import Batches, collected, mapped, row
from ..verify.findings import FINDINGS_MAX, Finding, in_order
from ..verify.key_audit import LEFT
from .key_rows import NONE, OLDEST, Rows, merged_oldest, oldest_rows
from .scanned import Scan, by_partition, frame_of

NO_KEY = "a record without a key is gone from the compacted part"
STALE = "a tombstone goes delete.retention.ms after it was cleaned"
ROWS_A_BUCKET = 1 << 20
"""Limit of key rows that one task judges, if every record has a key of its own."""

NAMED_BY_BUCKETS = 400
"""Least number of findings of each partition that all buckets together send the driver. The first FINDINGS_MAX are spread
evenly."""
NAMED_BY_A_BUCKET = 4
"""Least number of findings that one bucket names."""

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])


def named_by_a_bucket(buckets: int) -> int:
    """Return the number of findings of a partition that one bucket names.

    Ten thousand buckets of 64 partitions use about 50 MB.
    """
    return max(NAMED_BY_A_BUCKET, min(FINDINGS_MAX, NAMED_BY_BUCKETS // buckets))


class Known(NamedTuple):
    """Range of a partition that is known to be compacted."""

    clean_end: int = 0
    """End of the range (exclusive); 0 if nothing is known."""
    because: str = ""
    timed_end: int = 0
    """Offset up to which it is known by time; 0 if it is not."""
    stale_after_ms: int | None = None
    """A tombstone below `timed_end` that is older than the newest record there, by more than this, is stale."""


@dataclass(kw_only=True)
class SeenPartition:
    """Summary of one partition's records, from the tasks."""

    records: int = 0
    tombstones: int = 0
    no_key: int = 0
    """Number of records without a key below the clean end."""
    first_no_key: int = NONE
    newest_ms: int = -1
    """Newest time below `Known.timed_end`."""
    stretches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first offset, last offset, last missing offset between or -1) of each task."""
    candidates: list[tuple[int, int]] = field(default_factory=list)
    """(time, offset) of tombstones that may be stale, the oldest."""

    def add(self, other: SeenPartition) -> None:
        """Add the summary of another task."""
        self.records += other.records
        self.tombstones += other.tombstones
        self.no_key += other.no_key
        self.first_no_key = min(self.first_no_key, other.first_no_key)
        self.newest_ms = max(self.newest_ms, other.newest_ms)
        self.stretches += other.stretches
        self.candidates = sorted([*self.candidates, *other.candidates])[:FINDINGS_MAX]


@dataclass(kw_only=True)
class Keys:
    """Summary of the keys of one partition."""

    keys: int = 0
    left: int = 0
    """Number of keys with two records below the clean end."""
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """(second oldest offset, oldest offset) of keys with two records: the first ones."""

    def add(self, other: Keys) -> None:
        """Add the summary of another bucket."""
        self.keys += other.keys
        self.left += other.left
        self.pairs = sorted([*self.pairs, *other.pairs])[:FINDINGS_MAX]


class JudgedPartition(NamedTuple):
    """Judgement of one partition."""

    seen: SeenPartition
    keys: Keys
    clean_end: int
    because: str
    finding_count: int
    places: list[tuple[str, int, int]]
    """(rule, offset, the other offset or -1) of the first findings."""

    @property
    def compacted_up_to(self) -> int | None:
        """Offset below which no key occurs twice; None if none occurs twice at all."""
        return self.keys.pairs[0][0] if self.keys.pairs else None


def bucket_count(spark: SparkSession, scans: Sequence[Scan]) -> int:
    """Return the number of buckets: at least the cluster's concurrent tasks, and none with more than ROWS_A_BUCKET rows."""
    offsets = sum(scan.offsets for scan in scans)
    return max(spark.sparkContext.defaultParallelism, -(-offsets // ROWS_A_BUCKET))


def judge_topic(
    spark: SparkSession, scan: Scan, known: Mapping[int, Known], *, by_gaps: bool
) -> dict[int, JudgedPartition]:
    """Read a topic once, and judge each partition.

    Args:
        by_gaps: No producer writes in transactions, so the cleaner has removed missing offsets.
    """
    frame = frame_of(spark, scan)
    seen = {partition: SeenPartition() for partition in scan.ranges}
    keys = {partition: Keys() for partition in scan.ranges}
    if frame is not None:
        parts = bucket_count(spark, [scan])

        def find(batches: Batches) -> Batches:
            yield from (_BLOBS.row(bucket, data=data) for bucket, data in blobs_of(batches, known, parts))

        def judge(batches: Batches) -> Batches:
            yield from (
                row(_FOUND, found) for found in judged_blobs(_BLOBS.read(batches), known, named_by_a_bucket(parts))
            )

        what = f"records of {scan.topic} read, keys judged"
        for each in collected(mapped(_BLOBS.exchanged(frame, find, parts), judge, _FOUND), what):
            is_seen, found = pickle.loads(bytes(each.found))
            for partition, more in found.items():
                (seen if is_seen else keys)[partition].add(more)
    return {
        partition: conclude(seen[partition], keys[partition], known.get(partition, Known()), bounds, by_gaps=by_gaps)
        for partition, bounds in scan.ranges.items()
    }


def blobs_of(
    batches: Batches, known: Mapping[int, Known], buckets: int, *, rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[tuple[int, bytes]]:
    """Yield (bucket, blob) of a task: the rows of its keys, and one blob with its pickled summary."""
    seen: dict[int, SeenPartition] = {}

    def parts() -> Iterator[Rows]:
        for partition, batch in by_partition(batches):
            own = seen.setdefault(partition, SeenPartition())
            _look(own, batch, known.get(partition, Known()))
            keyed = batch.filter(batch.column("key").is_valid())
            if keyed.num_rows:
                yield oldest_rows(keyed.column("key"), partition, keyed.column("offset").to_numpy())

    for rows in merged_as_they_come(parts(), merged_oldest, rows_at_once):
        yield from ((bucket, b"\1" + data) for bucket, data in by_bucket(rows, buckets))
    if seen:
        yield min(seen) % buckets, b"\0" + pickle.dumps(seen)


def _look(own: SeenPartition, batch: pa.RecordBatch, known: Known) -> None:
    offsets = batch.column("offset").to_numpy()
    times_ms = batch.column("time").to_numpy(zero_copy_only=False)
    deleted = batch.column("deleted").to_numpy(zero_copy_only=False)
    own.records += len(offsets)
    own.tombstones += int(deleted.sum())
    has_none = batch.column("key").is_null().to_numpy(zero_copy_only=False) & (offsets < known.clean_end)
    if has_none.any():
        own.no_key += int(has_none.sum())
        own.first_no_key = min(own.first_no_key, int(offsets[has_none][0]))
    timed = offsets < known.timed_end
    if timed.any():
        own.newest_ms = max(own.newest_ms, int(times_ms[timed].max()))
        if known.stale_after_ms is not None and (old := np.flatnonzero(timed & deleted)).size:
            found = zip(times_ms[old].tolist(), offsets[old].tolist(), strict=True)
            own.candidates = sorted([*own.candidates, *found])[:FINDINGS_MAX]
    gaps = np.flatnonzero(np.diff(offsets) > 1)
    missing = int(offsets[gaps[-1] + 1]) - 1 if len(gaps) else -1
    first, last = int(offsets[0]), int(offsets[-1])
    if own.stretches and own.stretches[-1][1] < first:
        begin, before, earlier = own.stretches.pop()
        earlier = first - 1 if first > before + 1 else earlier
        first, missing = begin, max(missing, earlier)
    own.stretches.append((first, last, missing))


def judged_blobs(
    blobs: Iterator[tuple[tuple[int, ...], memoryview]], known: Mapping[int, Known], at_most: int = FINDINGS_MAX
) -> Iterator[bytes]:
    """Judge all blobs of some buckets: yields pickled (True, record summaries) and (False, key summaries), by partition.

    Args:
        at_most: Number of duplicate keys of a partition that each bucket names.
    """
    rows: dict[int, list[Rows]] = {}
    for (bucket,), data in blobs:
        if data[0]:
            rows.setdefault(bucket, []).append(np.frombuffer(data[1:], OLDEST))
        else:
            yield pickle.dumps((True, pickle.loads(data[1:])))
    while rows:
        _, parts = rows.popitem()
        merged = merged_oldest(parts)
        found: dict[int, Keys] = {}
        for partition in np.unique(merged["partition"]).tolist():
            own = merged[merged["partition"] == partition]
            twice = own[own["second"] != NONE]
            twice = twice[np.argsort(twice["second"])]
            left = int((twice["second"] < known.get(partition, Known()).clean_end).sum())
            pairs = zip(twice["second"][:at_most].tolist(), twice["first"][:at_most].tolist(), strict=True)
            found[partition] = Keys(keys=len(own), left=left, pairs=list(pairs))
        yield pickle.dumps((False, found))


def conclude(
    seen: SeenPartition, keys: Keys, known: Known, bounds: tuple[int, int], *, by_gaps: bool
) -> JudgedPartition:
    """Judge a partition, once all its summaries are combined."""
    clean_end, because, left = known.clean_end, known.because, keys.left
    if by_gaps and (missing := last_missing(seen, bounds)) >= clean_end:
        clean_end, because = missing + 1, f"offset {missing} is missing, and no transactions are used"
        left = sum(second < clean_end for second, _ in keys.pairs)  # only of the named ones
    places = [(LEFT, first, second) for second, first in keys.pairs if second < clean_end]
    count = left
    if seen.no_key:
        count += seen.no_key
        places.append((NO_KEY, seen.first_no_key, -1))
    if known.stale_after_ms is not None:
        stale = [(STALE, at, -1) for time, at in seen.candidates if time + known.stale_after_ms < seen.newest_ms]
        count += len(stale)
        places += stale
    return JudgedPartition(
        seen, keys, clean_end, because, count, sorted(places, key=lambda each: each[1])[:FINDINGS_MAX]
    )


def last_missing(seen: SeenPartition, bounds: tuple[int, int]) -> int:
    """Return the last offset of a partition that has no record; -1 if all have one."""
    at, missing = bounds[0], -1
    for first, last, inside in sorted(seen.stretches):
        if first > at:
            missing = first - 1
        missing = max(missing, inside)
        at = last + 1
    return bounds[1] - 1 if at < bounds[1] else missing


def findings_of(judged: JudgedPartition, place: str, keys: Mapping[int, bytes]) -> list[Finding]:
    """Return the first findings of a partition, with the keys that could be looked up by their offsets."""
    texts: Mapping[str, Any] = {
        LEFT: ("only its key's newest record below {end}, as at offset {other}", "also this one"),
        NO_KEY: ("none below {end}", "one"),
        STALE: ("it gone with the passes since", "it there"),
    }
    found = []
    for rule, offset, other in judged.places:
        expected, actual = texts[rule]
        expected = expected.format(end=judged.clean_end, other=other)
        found.append(Finding(rule, place, None, offset, expected, actual, keys.get(offset)))
    return in_order(found)
