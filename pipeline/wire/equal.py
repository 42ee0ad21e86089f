"""Are two topics equal, key by key? Counts and hashes first; then the keys that differ are read once more, and named.

    every key       has the same newest value on both sides; a deleted key is one that is not there
    every version   (where that is asked for) has as many records on both sides, in the same order

Keys of partitions with one number are one key where both topics have as many partitions, as a mirror keeps them; else a key is one
over all partitions, and its latest record the newest. Both sides are read up to ends that are taken before. So a mirror that lags
differs in the first look: what differs is looked at again, up to the ends of that moment, and what has changed since is not judged.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from ..records.batch_window import Int64s
from ..records.key_hashes import HASH, ROWS_AT_ONCE, by_bucket, hashed, merged_as_they_come
from ..spark.blobs import BlobRows
from ..spark.tasks import Batches, collected, mapped, row
from ..verify.findings import FINDINGS_MAX
from .compacted import bucket_count, named_by_a_bucket
from .key_rows import NEWEST, Rows, merged_newest, newest_rows
from .scanned import Scan, by_partition, frame_of

HERE, THERE = 0, 1
VERSIONS_MAX = 1_000
"""Of one key and side that a task tells in the second look: the newest."""

_BLOBS = BlobRows()
_FOUND = pa.schema([("found", pa.binary())])
_VERSIONS = pa.schema(
    [
        ("key", pa.binary()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("time", pa.int64()),
        ("value", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
_NO_KEY = b"no key"
_HASHES = np.dtype(HASH)
_SIGNED = np.dtype([(name, "i8") for name, _ in HASH])


class KeyComparison(NamedTuple):
    """How keys are compared."""

    by_time: bool
    """A key is one over all partitions."""
    every_version: bool

    def salt(self, partition: int, *, has_key: bool = True) -> bytes:
        """Of the hash of keys of a partition."""
        own = b"" if self.by_time else partition.to_bytes(4)
        return own if has_key else own + _NO_KEY


class Newest(NamedTuple):
    """A side's newest record of a key."""

    partition: int
    offset: int


class Differing(NamedTuple):
    """A key that differs in the first look."""

    time: int
    """Of the later of both newest records."""
    high: int
    low: int
    here: Newest | None
    there: Newest | None


class Side(NamedTuple):
    """What the first look has seen of a partition."""

    records: int
    keys: int


class FirstLook(NamedTuple):
    """The first look at all keys."""

    differing: int
    named: list[Differing]
    """The first FINDINGS_MAX that have not changed for longest."""
    sides: Mapping[tuple[int, int], Side]
    """(side, partition) -> what is there."""


class Version(NamedTuple):
    """A record of a key."""

    order: tuple[int, int]
    """The later the higher."""
    partition: int
    offset: int
    value: int
    """Its hash."""
    deleted: bool

    def is_like(self, other: Version) -> bool:
        return (self.value, self.deleted) == (other.value, other.deleted)


def compare(spark: SparkSession, scans: Sequence[Scan], asked: KeyComparison) -> FirstLook:
    """Read both topics once, each up to its fixed end.

    Args:
        scans: Here, there.
    """
    frames = [frame_of(spark, scan) for scan in scans]
    parts = bucket_count(spark, scans)
    blobs = None
    for side, frame in enumerate(frames):
        if frame is None:
            continue

        def find(batches: Batches, side: int = side) -> Batches:
            yield from (_BLOBS.row(bucket, data=data) for bucket, data in blobs_of(batches, side, asked, parts))

        own = mapped(frame, find, _BLOBS.schema)
        blobs = own if blobs is None else blobs.union(own)
    if blobs is None:
        return FirstLook(0, [], {})

    def judge(batches: Batches) -> Batches:
        yield from (row(_FOUND, found) for found in judged_blobs(_BLOBS.read(batches), asked, named_by_a_bucket(parts)))

    found = collected(mapped(_BLOBS.exchanged(blobs, None, parts), judge, _FOUND), "both topics read, keys compared")
    return look_of([pickle.loads(bytes(each.found)) for each in found])


def look_of(buckets: Sequence[FirstLook]) -> FirstLook:
    """What all buckets come to."""
    sides: dict[tuple[int, int], Side] = {}
    for each in buckets:
        for place, (records, keys) in each.sides.items():
            before = sides.get(place, Side(0, 0))
            sides[place] = Side(before.records + records, before.keys + keys)
    named = sorted((found for each in buckets for found in each.named), key=lambda each: each[:3])[:FINDINGS_MAX]
    return FirstLook(sum(each.differing for each in buckets), named, sides)


def blobs_of(
    batches: Batches, side: int, asked: KeyComparison, buckets: int, *, rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[tuple[int, bytes]]:
    """(bucket, rows) of a task."""
    parts = (rows for partition, batch in by_partition(batches) for rows in _rows_of(batch, side, partition, asked))
    for rows in merged_as_they_come(parts, partial(merged_newest, by_time=asked.by_time), rows_at_once):
        yield from by_bucket(rows, buckets)


def _rows_of(batch: pa.RecordBatch, side: int, partition: int, asked: KeyComparison) -> Iterator[Rows]:
    is_keyed = batch.column("key").is_valid()
    for has_key, own in ((True, batch.filter(is_keyed)), (False, batch.filter(batch.column("key").is_null()))):
        if not own.num_rows or not (has_key or asked.every_version):
            continue
        keys = own.column("key") if has_key else pa.array([b""] * own.num_rows, pa.binary())
        numbers = (own.column(name).to_numpy(zero_copy_only=False) for name in ("offset", "time", "value", "deleted"))
        yield newest_rows(keys, side, partition, *numbers, salt=asked.salt(partition, has_key=has_key))


def judged_blobs(
    blobs: Iterator[tuple[tuple[int, ...], memoryview]], asked: KeyComparison, at_most: int = FINDINGS_MAX
) -> Iterator[bytes]:
    """Of all blobs of some buckets: pickled looks, each of which names so many keys at most."""
    rows: dict[int, list[Rows]] = {}
    for (bucket,), data in blobs:
        rows.setdefault(bucket, []).append(np.frombuffer(data, NEWEST))
    while rows:
        _, parts = rows.popitem()
        yield pickle.dumps(_judged(merged_newest(parts, by_time=asked.by_time), asked, at_most))


def _judged(rows: Rows, asked: KeyComparison, at_most: int) -> FirstLook:
    """
    Args:
        rows: One for each key and side; of a key here first.
    """
    sides = {}
    for side, partition in np.unique(rows[["side", "partition"]]).tolist():
        own = rows[(rows["side"] == side) & (rows["partition"] == partition)]
        sides[side, partition] = Side(int(own["count"].sum()), len(own))
    pair = np.flatnonzero((rows["high"][1:] == rows["high"][:-1]) & (rows["low"][1:] == rows["low"][:-1]))
    is_alone = np.ones(len(rows), np.bool_)
    is_alone[pair], is_alone[pair + 1] = False, False
    here, there = rows[pair], rows[pair + 1]
    both_deleted = (here["deleted"] & there["deleted"]).astype(np.bool_)
    differs = (here["deleted"] != there["deleted"]) | ((here["value"] != there["value"]) & ~both_deleted)
    if asked.every_version:
        differs |= here["count"] != there["count"]
        if not asked.by_time:
            differs |= here["versions"] != there["versions"]
    alone = rows[is_alone & (asked.every_version | (rows["deleted"] == 0))]
    here, there = here[differs], there[differs]
    found = [
        *_differing(np.maximum(here["time"], there["time"]), here, there),
        *_differing(alone["time"], alone, None),
    ]
    return FirstLook(len(here) + len(alone), sorted(found, key=lambda each: each[:3])[:at_most], sides)


def _differing(times_ms: Int64s, rows: Rows, others: Rows | None) -> Iterator[Differing]:
    for number in np.argsort(times_ms, kind="stable")[:FINDINGS_MAX].tolist():
        one = rows[number]
        places: list[Newest | None] = [None, None]
        for each in (one,) if others is None else (one, others[number]):
            places[int(each["side"])] = Newest(int(each["partition"]), int(each["last"]))
        yield Differing(int(times_ms[number]), int(one["high"]), int(one["low"]), *places)


def versions_of(
    spark: SparkSession, scan: Scan, keys: Sequence[Differing], asked: KeyComparison
) -> dict[tuple[int, int], tuple[bytes | None, list[Version]]]:
    """Hash -> the key and its records on one side, oldest first."""
    frame = frame_of(spark, scan)
    if frame is None:
        return {}
    wanted = np.array(sorted({each.high for each in keys}), np.uint64)

    def find(batches: Batches) -> Batches:
        yield from kept_versions(batches, wanted, asked)

    found: dict[tuple[int, int], tuple[bytes | None, list[Version]]] = {}
    for each in collected(mapped(frame, find, _VERSIONS), f"versions of what differs in {scan.topic}"):
        order = (each.time, each.offset) if asked.by_time else (0, each.offset)
        # Spark has no unsigned numbers: they have come as they are, in two's complement.
        own = found.setdefault((each.high % (1 << 64), each.low % (1 << 64)), (each.key, []))
        own[1].append(Version(order, each.partition, each.offset, each.value, each.deleted))
    return {hash_: (key, sorted(versions)) for hash_, (key, versions) in found.items()}


def kept_versions(batches: Batches, wanted: NDArray[np.uint64], asked: KeyComparison) -> Batches:
    """Of a task's records those of some keys, given by the higher halves of their hashes: of each key the newest VERSIONS_MAX."""
    found: dict[tuple[int, int], deque[dict[str, object]]] = {}
    for partition, batch in by_partition(batches):
        for has_key in (True, False):
            own = batch.filter(batch.column("key").is_valid() if has_key else batch.column("key").is_null())
            if not own.num_rows or not (has_key or asked.every_version):
                continue
            encoded = own.column("key").fill_null(b"").dictionary_encode()
            salt = asked.salt(partition, has_key=has_key)
            hashes = hashed(encoded.dictionary, _HASHES, salt=salt)[encoded.indices.to_numpy(zero_copy_only=False)]
            chosen = np.flatnonzero(np.isin(hashes["high"], wanted))
            signed = hashes.view(_SIGNED)
            for number, record in zip(chosen, own.take(pa.array(chosen)).to_pylist(), strict=True):
                high, low = signed[number].tolist()
                record |= {"high": high, "low": low}
                found.setdefault((high, low), deque(maxlen=VERSIONS_MAX)).append(record)
    for records in found.values():
        yield pa.RecordBatch.from_pylist(
            [{name: each[name] for name in _VERSIONS.names} for each in records], schema=_VERSIONS
        )
