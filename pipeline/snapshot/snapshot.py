"""Snapshot of the newest value of each key, as Parquet: the result of reading the whole log.

    find     of each part of a segment, its keys' newest offsets            a task a part
    choose   of each key the newest of all parts; deleted keys are left out a task a coarse bucket of hashes
    write    each part again, and of its records the chosen ones            a task a part, a file each

A key in two partitions has two rows. Only committed data counts, up to the last stable offset; records without a key
have no row. Every part is read twice, and only 29 bytes for each key of each part are moved between tasks.

A live cleaner causes further rounds, and affects what the snapshot shows; see `snapshot_rounds`.

Memory of a task, however large the log: to find, a window with its records, and ROWS_AT_ONCE rows. To choose, about 130
bytes for each of the ROWS_A_BUCKET rows of a fine bucket, 280 MB; a coarse bucket with several fine ones also uses Spark's
local disks, 41 bytes for each row (`records.fine_buckets`). To write, 24 bytes for each key of a part (MAX_PART_BYTES of a
log file), and a row group.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...storage.disk.checkpoints import write_atomically
from ...storage.disk.os_files import OsFiles
from ...storage.disk.paths import OFFSET_MAX
from ...storage.topics.options import MAX_LONG
from ..objects.object_files import ObjectFiles
from ..records.fine_buckets import Buckets, Parted, buckets_for
from ..records.key_hashes import HASH, ROWS_AT_ONCE, by_key, hashed, merged_as_they_come
from ..records.versions import COLUMNS as VERSION_COLUMNS
from ..records.versions import versions_of
from ..source.reading import Task
from ..source.split_reader import Wanted, read_split
from ..steps import UNWATCHED, Watch
from ..stores.log_files import Split
from ..stores.store import Store
from ..stores.stores import Stores
from .manifest import MANIFEST, Manifest, PartitionSpan
from .parquet_files import opened, rows_of_file
from .snapshot_folder import replacing
from .snapshot_rounds import NO_VERSIONS, Piece, Round, RoundsDone, RunRound, Versions, WrittenPart, run_rounds
from .targets import SnapshotTarget

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampMs", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
"""Schema of a snapshot's files."""

NEWEST = np.dtype([*HASH, ("offset", "i8"), ("part", "i4"), ("is_deleted", "u1")])
VERSIONED = np.dtype([*NEWEST.descr, ("version", "i8")])
"""Rows of topics whose records have versions: the highest version of a key is its newest record."""
NewestRows = NDArray[np.void]

ROWS_A_BUCKET = 1 << 21
"""Limit of rows that are chosen from at once, unless records take less than MIN_RECORD_BYTES each in the log."""
MIN_RECORD_BYTES = 8
ROW_GROUP_ROWS, ROW_GROUP_BYTES = 1 << 17, 32 << 20
"""A row group ends with the batch that reaches either limit."""

_KEYS = pa.schema([("key", pa.binary()), ("offset", pa.int64()), ("valueSize", pa.int32())])
_VERSIONED_KEYS = pa.schema([*_KEYS, *(SCHEMA.field(name) for name in VERSION_COLUMNS)])


def buckets_of(of: Round, at_once: int = 1) -> Buckets:
    """Return the number of buckets for a cluster that runs `at_once` tasks at a time. The result does not depend on it."""
    rows = sum(rows_at_most(task.split) for task in of.tasks)
    rows += sum(rows_of_file(path, of.objects) for path in of.written)
    row_bytes = row_kind(of.versions).itemsize
    return buckets_for(rows * row_bytes, len(of.pieces), ROWS_A_BUCKET * row_bytes, at_once)


def row_kind(versions: Versions) -> np.dtype[np.void]:
    """Return the type of the rows of a round."""
    return VERSIONED if versions else NEWEST


def rows_at_most(split: Split) -> int:
    """Return a bound of the number of records."""
    return min(split.up_to_offset - split.from_offset, (split.end - split.start) // MIN_RECORD_BYTES)


def keys_of(piece: Piece, number: int, objects: ObjectFiles, versions: Versions) -> Iterator[NewestRows]:
    """Yield the rows of a piece of a round's work. See `newest_of`.

    Args:
        number: The part's number, if it is a part of a log.
        objects: Files with addresses.
    """
    if isinstance(piece, Task):
        return newest_of(piece, number, versions)
    return _written_in(piece, objects, row_kind(versions))


def every_key(of: Round, watch: Watch = UNWATCHED) -> Iterator[NewestRows]:
    """Yield the rows of all pieces of a round's work, in this process."""
    searched = watch.step("parts searched", len(of.pieces))
    for number, piece in enumerate(of.pieces, of.first_part):
        yield from keys_of(piece, number, of.objects, of.versions)
        searched(1)


def newest_of(
    task: Task, number: int, versions: Versions = NO_VERSIONS, *, rows_at_once: int = ROWS_AT_ONCE
) -> Iterator[NewestRows]:
    """Yield the newest offset of each key of a part, in order of the hash; many keys come in pieces of about `rows_at_once`.

    Raises:
        CorruptSourceError: A batch is damaged.
    """
    return merged_as_they_come(_rows_of(task, number, versions), newest, rows_at_once)


def _rows_of(task: Task, number: int, versions: Versions) -> Iterator[NewestRows]:
    source, kind = versions.get(task.split.of.topic), row_kind(versions)
    schema = _KEYS if source is None else _VERSIONED_KEYS
    for batch in read_split(task.split, Wanted(schema, task.aborted)):
        batch = batch.filter(batch.column("key").is_valid())
        if not batch.num_rows:
            continue
        encoded = batch.column("key").dictionary_encode()
        code = encoded.indices.to_numpy(zero_copy_only=False)
        rows = _hashed(encoded.dictionary, task.split.of.partition, kind)
        rows["part"] = number
        if source is not None:
            versions_here = versions_of(batch, source)
            order = np.argsort(versions_here, kind="stable")
            batch, code = batch.take(pa.array(order)), code[order]
            rows["version"][code] = versions_here[order]
        # The last of several assignments to one place counts.
        rows["offset"][code] = batch.column("offset").to_numpy()
        rows["is_deleted"][code] = batch.column("valueSize").is_null().to_numpy(zero_copy_only=False)
        yield rows


def _written_in(path: str, objects: ObjectFiles, kind: np.dtype[np.void]) -> Iterator[NewestRows]:
    """Yield the keys of a file of a snapshot, as the newest of all and deleted, so that they get no second row."""
    return merged_as_they_come(_rows_in(path, objects, kind), newest)


def _rows_in(path: str, objects: ObjectFiles, kind: np.dtype[np.void]) -> Iterator[NewestRows]:
    with opened(path, objects) as file:
        for batch in file.iter_batches(columns=["key", "partition"]):
            partitions = batch.column("partition").to_numpy()
            for partition in np.unique(partitions).tolist():
                rows = _hashed(batch.column("key").filter(pa.array(partitions == partition)), partition, kind)
                rows["part"], rows["offset"], rows["is_deleted"] = -1, OFFSET_MAX, 1
                if kind == VERSIONED:
                    rows["version"] = MAX_LONG
                yield rows


def _hashed(keys: pa.Array, partition: int, kind: np.dtype[np.void]) -> NewestRows:
    """Return a row for each of these keys. The salt makes keys of other partitions different ones."""
    return hashed(keys, kind, salt=partition.to_bytes(4))


def newest(rows: Iterable[NewestRows]) -> NewestRows:
    """Return one row for each key: the one with the highest offset, or version if rows have any."""
    found = [each for each in rows if len(each)]
    every: NewestRows = np.concatenate(found) if found else np.empty(0, NEWEST)
    order, starts = by_key(every)
    if len(starts) == len(every):
        return every[order]
    if every.dtype == VERSIONED:
        key_of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(every)))
        by_version = order[np.lexsort((every["offset"][order], every["version"][order], key_of))]
        highest: NewestRows = every[by_version[np.append(starts[1:], len(every)) - 1]]
        return highest
    offsets = every["offset"][order]
    best = np.repeat(np.maximum.reduceat(offsets, starts), np.diff(starts, append=len(every)))
    newest_at = np.flatnonzero(offsets == best)  # a key may be listed twice with one offset: the first one suffices
    last: NewestRows = every[order[newest_at[np.searchsorted(newest_at, starts)]]]
    return last


def chosen(rows: Iterable[NewestRows], *, buckets: Buckets | None = None) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield each part with the offsets of the records to write, ascending, from all rows of some keys.

    Args:
        buckets: Set if the rows are those of a coarse bucket, which may be more than a task holds.
    """
    if buckets is None or buckets.fine == 1:
        yield from _by_part(*_living(rows))
        return
    held_bytes, fine = ROWS_A_BUCKET * NEWEST.itemsize, np.uint64(buckets.fine)
    keys, found = Parted(buckets.fine, held_bytes), Parted(buckets.fine, held_bytes)
    for each in rows:
        keys.add(buckets.bucket_numbers(each["high"]) % fine, (each,))
    for (own,) in keys.each():
        parts, offsets = _living([own])
        found.add(parts % buckets.fine, (parts, offsets))
    for parts, offsets in found.each():
        yield from _by_part(parts, offsets)


def _living(rows: Iterable[NewestRows]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return part and offset of the newest record of each key that gets a row."""
    found = newest(rows)
    found = found[found["is_deleted"] == 0]
    return found["part"].astype(np.int32), found["offset"].astype(np.int64)


def _by_part(parts: NDArray[np.int32], offsets: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    order = np.lexsort((offsets, parts))
    numbers, starts = np.unique(parts[order], return_index=True)
    yield from zip(numbers.tolist(), np.split(offsets[order], starts[1:]), strict=False)  # no part, one


def write_part(
    task: Task, number: int, offsets: NDArray[np.int64], target: SnapshotTarget, *, attempt: str
) -> WrittenPart:
    """Write these records of a part, in order, into a file of the target: those of them that still exist.

    The file is on disk, and unfinished. It counts once the driver, which knows the one valid attempt, has given it its name.
    Attempts that Spark has abandoned continue, and may see less of a part, if its cleaner has removed records since.

    Raises:
        CorruptSourceError: A batch is damaged; no file is left.
        SourceChangedError: Some of its offsets are not in the log any more.
    """
    unfinished = target.write(number, attempt, SCHEMA, _row_groups(chosen_of(task, offsets)))
    return WrittenPart(number, len(offsets), unfinished)


def chosen_of(task: Task, offsets: NDArray[np.int64], schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """Yield the existing records of a part with these offsets, ascending. The schema must contain the offset."""
    for batch in read_split(task.split, Wanted(schema, task.aborted)):
        if batch.num_rows:
            own = batch.column("offset").to_numpy()
            first, end = np.searchsorted(offsets, (own[0], own[-1] + 1))
            yield batch.filter(pa.array(np.isin(own, offsets[first:end])))


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    group: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        group.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= ROW_GROUP_ROWS or size_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, rows, size_bytes = [], 0, 0
    if rows:
        yield pa.Table.from_batches(group)


class SnapshotResult(NamedTuple):
    """Result of a snapshot."""

    path: str
    keys: int
    partitions: int
    parts: int


def take_snapshot(
    store: Store | Stores,
    topic: str,
    out: str,
    run: RunRound | None = None,
    *,
    now_ms: int,
    partition: int | None = None,
    overwrite: bool = False,
) -> SnapshotResult:
    """Write a snapshot.

    Args:
        out: A folder, which workers share.
        run: Function that runs the rounds: `rounds_here` by default, or `snapshot_job.rounds_on` a session.
        now_ms: The current time, Unix milliseconds.

    Raises:
        UsageError: The log does not exist; or `out` exists, and `overwrite` is not set.
        CorruptSourceError: A log is damaged; no files are left.
        SourceChangedError: Records disappeared during the job, but not by a cleaner; no files are left.
        PipelineError: A job failed for another reason; no files are left.
    """
    with replacing(out, overwrite=overwrite, now_ms=now_ms) as directory:
        target = SnapshotTarget(directory)
        done = run_rounds(store, topic, target, run or rounds_here(topic), partition=partition)
        target.close(SCHEMA)
        write_atomically(OsFiles(), os.path.join(directory, MANIFEST), _manifest(topic, done, now_ms).to_json())
    return SnapshotResult(out, done.keys, len(done.first.ends), len(done.tasks))


def _manifest(topic: str, done: RoundsDone, now_ms: int) -> Manifest:
    spans = {
        tp.partition: PartitionSpan(
            topic_id=None if end.topic_id is None else end.topic_id.hex(),
            log_start_offset=done.first.log_starts[tp],
            end_offset=end.offset,
        )
        for tp, end in done.first.ends.items()
    }
    return Manifest(topic=topic, taken_at_ms=now_ms, partitions=spans)


def rounds_here(topic: str, watch: Watch = UNWATCHED) -> RunRound:
    """Return a function that runs rounds in this process, without Spark. Memory: about 130 bytes for each key of each part.

    Args:
        watch: Receives the progress.
    """

    def run(of: Round, target: SnapshotTarget) -> Iterator[WrittenPart]:
        watch.begin(topic)
        offsets = dict(chosen(every_key(of, watch)))
        written = watch.step("parts written", len(offsets))
        for part, found in offsets.items():
            yield write_part(of.tasks[part - of.first_part], part, found, target, attempt="local")
            written(1)

    return run
