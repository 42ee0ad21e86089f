"""Is a topic compacted as promised, as far as that can be known over the wire?

    below the clean end     each key has one record, and each record a key
    tombstones              one that was cleaned is gone once delete.retention.ms and another pass have gone by

No protocol says how far the cleaner has come. What tells it (`Known`): the caller, who has looked; the time within which all is
cleaned (max.compaction.lag.ms, or the caller's word), where timestamps are those of the appends; or, where nobody writes in
transactions, whose markers are offsets without records, too, the last offset that is missing. What was not known is said.
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
"""Rows of keys that one task judges, at most, where every record has a key of its own."""

NAMED_BY_BUCKETS = 400
"""Findings that all buckets together give the driver at least, of each partition: hashes share the first FINDINGS_MAX out evenly."""
NAMED_BY_A_BUCKET = 4
"""At least."""

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])


def named_by_a_bucket(buckets: int) -> int:
    """How many findings of a partition one bucket names. Ten thousand buckets of 64 partitions come to some 50 MB."""
    return max(NAMED_BY_A_BUCKET, min(FINDINGS_MAX, NAMED_BY_BUCKETS // buckets))


class Known(NamedTuple):
    """How far a partition is known to be compacted."""

    clean_end: int = 0
    """Exclusive; 0 where nothing is known."""
    because: str = ""
    timed_end: int = 0
    """As far as it is known by time; 0 where it is not."""
    stale_after_ms: int | None = None
    """A tombstone below `timed_end` that is older than the newest record there, by more than this, is stale."""


@dataclass(kw_only=True)
class SeenPartition:
    """What the tasks have seen of one partition."""

    records: int = 0
    tombstones: int = 0
    no_key: int = 0
    """Below the clean end."""
    first_no_key: int = NONE
    newest_ms: int = -1
    """Below `Known.timed_end`."""
    stretches: list[tuple[int, int, int]] = field(default_factory=list)
    """(first offset, last offset, last missing offset between or -1) of each task."""
    candidates: list[tuple[int, int]] = field(default_factory=list)
    """(time, offset) of tombstones that may be stale, the oldest."""

    def add(self, other: SeenPartition) -> None:
        """What another task has seen."""
        self.records += other.records
        self.tombstones += other.tombstones
        self.no_key += other.no_key
        self.first_no_key = min(self.first_no_key, other.first_no_key)
        self.newest_ms = max(self.newest_ms, other.newest_ms)
        self.stretches += other.stretches
        self.candidates = sorted([*self.candidates, *other.candidates])[:FINDINGS_MAX]


@dataclass(kw_only=True)
class Keys:
    """What the keys of one partition come to."""

    keys: int = 0
    left: int = 0
    """Of which two records are below the clean end."""
    pairs: list[tuple[int, int]] = field(default_factory=list)
    """(second oldest offset, oldest offset) of keys that are there twice: the first ones."""

    def add(self, other: Keys) -> None:
        """What another bucket has."""
        self.keys += other.keys
        self.left += other.left
        self.pairs = sorted([*self.pairs, *other.pairs])[:FINDINGS_MAX]


class JudgedPartition(NamedTuple):
    """One partition."""

    seen: SeenPartition
    keys: Keys
    clean_end: int
    because: str
    finding_count: int
    places: list[tuple[str, int, int]]
    """(rule, offset, the other offset or -1) of the first findings."""

    @property
    def compacted_up_to(self) -> int | None:
        """No key is there twice below this offset; None if none is at all."""
        return self.keys.pairs[0][0] if self.keys.pairs else None


def bucket_count(spark: SparkSession, scans: Sequence[Scan]) -> int:
    """As many as the cluster runs tasks at once, and enough that none has more than ROWS_A_BUCKET rows."""
    offsets = sum(scan.offsets for scan in scans)
    return max(spark.sparkContext.defaultParallelism, -(-offsets // ROWS_A_BUCKET))


def judge_topic(
    spark: SparkSession, scan: Scan, known: Mapping[int, Known], *, by_gaps: bool
) -> dict[int, JudgedPartition]:
    """Read a topic once, and judge each partition.

    Args:
        by_gaps: Nobody writes in transactions, so a missing offset is the cleaner's doing.
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
    """(bucket, blob) of a task: the rows of its keys, and, pickled, what else it has seen."""
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
    """Of all blobs of some buckets: pickled (True, what was seen) and (False, what the keys come to), by partition.

    Args:
        at_most: So many keys of a partition that are there twice are named by each bucket.
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
    """What is broken, once all of a partition is there."""
    clean_end, because, left = known.clean_end, known.because, keys.left
    if by_gaps and (missing := last_missing(seen, bounds)) >= clean_end:
        clean_end, because = missing + 1, f"offset {missing} is missing, and there are no transactions"
        left = sum(second < clean_end for second, _ in keys.pairs)  # of those that are named
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
    """The last offset of a partition that has no record; -1 if all have one."""
    at, missing = bounds[0], -1
    for first, last, inside in sorted(seen.stretches):
        if first > at:
            missing = first - 1
        missing = max(missing, inside)
        at = last + 1
    return bounds[1] - 1 if at < bounds[1] else missing


def findings_of(judged: JudgedPartition, place: str, keys: Mapping[int, bytes]) -> list[Finding]:
    """The first findings of a partition, with the keys that could be looked up by their offsets."""
    texts: Mapping[str, Any] = {
        LEFT: ("only its key's newest record below {end}, as at offset {other}", "this one beside it"),
        NO_KEY: ("none below {end}", "one"),
        STALE: ("it gone with the passes since", "it there"),
    }
    found = []
    for rule, offset, other in judged.places:
        expected, actual = texts[rule]
        expected = expected.format(end=judged.clean_end, other=other)
        found.append(Finding(rule, place, None, offset, expected, actual, keys.get(offset)))
    return in_order(found)
