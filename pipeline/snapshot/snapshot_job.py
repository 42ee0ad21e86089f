"""Rounds of a snapshot as Spark jobs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from ..records.fine_buckets import Buckets
from ..records.key_hashes import by_bucket
from ..source.reading import Task as LogPart
from ..spark.blobs import BlobRows
from ..spark.task_logs import logged
from ..spark.tasks import Batches, attempt_of, collected, mapped, row, tasks_at_once
from ..steps import UNWATCHED, Watch
from .snapshot import NewestRows, buckets_of, chosen, keys_of, row_kind, write_part
from .snapshot_rounds import Piece, Round, RunRound, WrittenPart
from .targets import SnapshotTarget

_BLOBS = BlobRows("is_piece")
"""Blobs that tasks exchange, and pickled pieces of a round's work."""
_WRITTEN = pa.schema([("part", pa.int32()), ("chosen", pa.int64()), ("unfinished", pa.string())])


def rounds_on(spark: SparkSession, topic: str, *, buckets: Buckets | None = None, watch: Watch = UNWATCHED) -> RunRound:
    """Return the `run` of `take_snapshot` on a session. Workers must reach the store and the snapshot's place.

    Args:
        buckets: Number of parts in which the keys are chosen; the default is `snapshot.buckets_of`.
        watch: Receives the progress.
    """
    application_id = spark.sparkContext.applicationId

    def run(of: Round, target: SnapshotTarget) -> list[WrittenPart]:
        watch.begin(topic)
        frame = picked(spark, of, buckets, watch)
        written, first_part = watch.step("parts written", len(of.tasks)), of.first_part

        def write(batches: Batches) -> Batches:
            for number, task, offsets in chosen_parts(batches):
                attempt = attempt_of(application_id)
                with logged(f"{piece_text(task)}: write"):
                    yield row(_WRITTEN, *write_part(task, first_part + number, offsets, target, attempt=attempt))
                written(1)

        rows = collected(mapped(frame, write, _WRITTEN), "keys found, chosen, written")
        return [WrittenPart(*each) for each in rows]

    return run


def picked(spark: SparkSession, of: Round, buckets: Buckets | None, watch: Watch = UNWATCHED) -> DataFrame:
    """Choose the newest records of the keys in a round: blobs of offsets, for tasks numbered like the parts in the round.

    `chosen_parts` reads them. Each task also receives its part of the log, as a row.
    """
    shared_out = buckets_of(of, tasks_at_once(spark)) if buckets is None else buckets
    searched = watch.step("parts searched", len(of.pieces))
    judged = watch.step("buckets of keys chosen from", shared_out.coarse)
    first_part, objects = of.first_part, of.objects
    versions, kind = dict(of.versions), row_kind(of.versions)

    def find(batches: Batches) -> Batches:
        found = (rows for (number, _), data in _BLOBS.read(batches) for rows in rows_of(number, pickle.loads(data)))
        yield from _BLOBS.rows(
            ((bucket, 0), data) for rows in found for bucket, data in by_bucket(rows, shared_out.coarse)
        )

    def rows_of(number: int, piece: Piece) -> Iterator[NewestRows]:
        with logged(f"{piece_text(piece)}: keys"):
            yield from keys_of(piece, first_part + number, objects, versions)
        searched(1)

    def choose(batches: Batches) -> Batches:
        rows = (np.frombuffer(data, kind) for _, data in _BLOBS.read(batches))
        found = chosen(rows, buckets=shared_out)
        yield from _BLOBS.rows(((part - first_part, 0), offsets.tobytes()) for part, offsets in found)
        judged(1)

    pieces = _BLOBS.exchanged(_pieces(spark, of.pieces), None, max(1, len(of.pieces)))
    keys = _BLOBS.exchanged(pieces, find, shared_out.coarse)
    offsets = mapped(keys, choose, _BLOBS.schema)
    return _BLOBS.exchanged(offsets.unionAll(_pieces(spark, of.tasks)), None, max(1, len(of.tasks)))


def _pieces(spark: SparkSession, pieces: Sequence[Piece]) -> DataFrame:
    return _BLOBS.frame(spark, (((number, 1), pickle.dumps(piece)) for number, piece in enumerate(pieces)))


def piece_text(piece: Piece) -> str:
    """Describe a piece of a round's work: the partition, the file, and the place in it."""
    if isinstance(piece, str):
        return piece
    split = piece.split
    return f"{split.of}: {split.log_path}, bytes {split.start} to {split.end}"


def chosen_parts(batches: Batches) -> Iterator[tuple[int, LogPart, NDArray[np.int64]]]:
    """In a task, yield the number of each part that has chosen records, the part, and their offsets, ascending."""
    parts: dict[int, LogPart] = {}
    offsets: dict[int, list[NDArray[np.int64]]] = {}
    for (number, is_piece), data in _BLOBS.read(batches):
        if is_piece:
            parts[number] = pickle.loads(data)
        else:
            offsets.setdefault(number, []).append(np.frombuffer(data, np.int64))
    for number, found in sorted(offsets.items()):
        yield number, parts[number], np.sort(np.concatenate(found))
