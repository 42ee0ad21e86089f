"""The rounds of a snapshot as Spark jobs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from ..records.fine_buckets import Buckets
from ..records.key_hashes import by_bucket
from ..spark.blobs import BlobRows
from ..spark.task_logs import logged
from ..spark.tasks import Batches, attempt_of, collected, mapped, numbers, row, tasks_at_once, work
from ..steps import UNWATCHED, Watch
from .snapshot import NEWEST, NewestRows, buckets_of, chosen, keys_of, work_count, write_part
from .snapshot_rounds import Round, RunRound, WrittenPart
from .targets import SnapshotTarget

_BLOBS = BlobRows()
_WRITTEN = pa.schema([("part", pa.int32()), ("chosen", pa.int64()), ("unfinished", pa.string())])


def rounds_on(spark: SparkSession, topic: str, *, buckets: Buckets | None = None, watch: Watch = UNWATCHED) -> RunRound:
    """The `run` of `take_snapshot` on a session, whose workers see the store and the snapshot's place as this process does.

    Args:
        buckets: How many parts the keys are chosen in; unless given, as `snapshot.buckets_of` says.
        watch: Is told how far it is.
    """
    application_id = spark.sparkContext.applicationId

    def run(of: Round, target: SnapshotTarget) -> list[WrittenPart]:
        watch.begin(topic)
        frame = picked(spark, of, buckets, watch)
        written = watch.step("parts written", len(of.tasks))

        def write(batches: Batches) -> Batches:
            for number, offsets in offsets_of(batches):
                attempt = attempt_of(application_id)
                with logged(f"{part_text(of, number)}: write"):
                    yield row(
                        _WRITTEN,
                        *write_part(of.tasks[number], of.first_part + number, offsets, target, attempt=attempt),
                    )
                written(1)

        rows = collected(mapped(frame, write, _WRITTEN), "keys found, chosen, written")
        return [WrittenPart(*each) for each in rows]

    return run


def picked(spark: SparkSession, of: Round, buckets: Buckets | None, watch: Watch = UNWATCHED) -> DataFrame:
    """Which records of a round's parts are the newest of their keys: blobs of offsets for tasks that go by the parts' numbers
    within the round; see `offsets_of`."""
    shared_out = buckets_of(of, tasks_at_once(spark)) if buckets is None else buckets
    searched = watch.step("parts searched", work_count(of))
    judged = watch.step("buckets of keys chosen from", shared_out.coarse)

    def find(batches: Batches) -> Batches:
        found = (rows for number in numbers(batches) for rows in rows_of(number))
        yield from _BLOBS.rows(
            ((bucket,), data) for rows in found for bucket, data in by_bucket(rows, shared_out.coarse)
        )

    def rows_of(number: int) -> Iterator[NewestRows]:
        with logged(f"{part_text(of, number)}: keys"):
            yield from keys_of(of, number)
        searched(1)

    def choose(batches: Batches) -> Batches:
        rows = (np.frombuffer(data, NEWEST) for _, data in _BLOBS.read(batches))
        found = chosen(rows, keeps_deleted=of.keeps_deleted, buckets=shared_out)
        yield from _BLOBS.rows(((part - of.first_part,), offsets.tobytes()) for part, offsets in found)
        judged(1)

    keys = _BLOBS.exchanged(work(spark, work_count(of)), find, shared_out.coarse)
    return _BLOBS.exchanged(keys, choose, max(1, len(of.tasks)))


def part_text(of: Round, number: int) -> str:
    """A piece of a round's work: the partition, the file, and where in it."""
    if number >= len(of.tasks):
        return of.written[number - len(of.tasks)]
    split = of.tasks[number].split
    return f"{split.of}: {split.log_path}, bytes {split.start} to {split.end}"


def offsets_of(batches: Batches) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """In a task: (number of a part, offsets that are chosen of it, rising)."""
    offsets: dict[int, list[NDArray[np.int64]]] = {}
    for (number,), data in _BLOBS.read(batches):
        offsets.setdefault(number, []).append(np.frombuffer(data, np.int64))
    for number, found in sorted(offsets.items()):
        yield number, np.sort(np.concatenate(found))
