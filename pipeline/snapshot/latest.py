"""The newest value of each key, as a frame: for any sink that Spark writes to.

    latest(spark, "/data", topic="users").write.format("delta").save("/lake/users")

The call chooses the records in a job that reads the log's keys. The records themselves are read when the frame is. So all uses
of one frame show the same moment. If a cleaner removes a chosen record before it is read, as a newer one exists, the query
fails: a frame never lacks a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from ...storage.disk.paths import TopicPartition
from ..errors import SourceChangedError, UsageError
from ..objects.addresses import parse_fs_options
from ..records.fine_buckets import Buckets
from ..source.reading import Task
from ..spark.failures import failures_translated
from ..spark.tasks import Batches, mapped
from ..stores.reading_files import ReadingFiles
from ..stores.segment_files import pause_between_looks
from ..stores.store import Store
from ..stores.stores import Stores, opened_store
from .snapshot import SCHEMA, chosen_of
from .snapshot_job import chosen_parts, picked
from .snapshot_rounds import ROUNDS_MAX, WAITS_MAX, Round, first_round


def latest(
    spark: SparkSession,
    source: str,
    *,
    topic: str,
    partition: int | None = None,
    columns: Sequence[str] | None = None,
    buckets: Buckets | None = None,
    fs_options: Mapping[str, str] | None = None,
    pause: Callable[[], None] = pause_between_looks,
) -> DataFrame:
    """Return one row for each key that has a value at the end of the committed records, with the columns of a snapshot.

    A key in two partitions has two rows; a record without a key has none. The chosen positions are stored on the executors' disks,
    8 bytes per key, until the DataFrame is garbage-collected. If such an executor is lost, the query fails; call again.

    Args:
        source: Data directory, or several separated by commas, at the same path on all workers; or an address.
        columns: Columns of a snapshot to read (default: all). Other columns are not read.
        buckets: See `snapshot_job.rounds_on`.
        fs_options: Options of the object store by name, e.g. `s3.region`, if `source` is an address.
        pause: Called between attempts on a directory that a server changes.

    Raises:
        UsageError: The log or a column was not found.
        CorruptSourceError: A log is damaged.
        SourceChangedError: No consistent view of all keys was possible, because of the cleaner or a lagging high watermark.
        PipelineError: The job failed for another reason.
    """
    schema = _schema_of(columns)
    store = opened_store(source, ReadingFiles(parse_fs_options(fs_options or {})))
    for _ in range(ROUNDS_MAX):
        of = round_that_sees_all(store, store.topic_partitions(topic, partition), pause)
        with failures_translated():
            found = picked(spark, of, buckets).localCheckpoint()
        if of.is_undisturbed():
            return _read(found, schema)
    raise SourceChangedError(
        f"{source}: segments of {topic} were replaced in each of {ROUNDS_MAX} attempts to read its keys: its cleaner is faster"
    )


def _schema_of(columns: Sequence[str] | None) -> pa.Schema:
    names = SCHEMA.names if columns is None else list(columns)
    if strange := [name for name in names if name not in SCHEMA.names]:
        raise UsageError(f"unknown column {strange[0]}; columns are {', '.join(SCHEMA.names)}")
    return pa.schema([SCHEMA.field(name) for name in names])


def round_that_sees_all(
    store: Store | Stores, partitions: Sequence[TopicPartition], pause: Callable[[], None] = pause_between_looks
) -> Round:
    """Return the round that `latest` reads. Raises SourceChangedError if all keys can never be seen at once."""
    for _ in range(WAITS_MAX):
        of = first_round(store, partitions)
        if of.sees_all:
            return of
        pause()
    raise SourceChangedError(
        f"{store.data_dir}: the high watermarks of {partitions[0].topic} are below segments that its cleaner may have used: start its server"
    )


def _read(found: DataFrame, schema: pa.Schema) -> DataFrame:
    def read(batches: Batches) -> Batches:
        for _, part, offsets in chosen_parts(batches):
            yield from read_part(part, offsets, schema)

    return mapped(found, read, schema)


def read_part(task: Task, offsets: NDArray[np.int64], schema: pa.Schema) -> Batches:
    """Yield the chosen records of a part. Raises SourceChangedError if some of them are missing."""
    count = 0
    wanted = schema if "offset" in schema.names else schema.append(SCHEMA.field("offset"))
    for batch in chosen_of(task, offsets, wanted):
        count += batch.num_rows
        yield batch.select(schema.names)
    if count != len(offsets):
        tp: TopicPartition = task.split.of
        raise SourceChangedError(
            f"{tp}: {len(offsets) - count} of {len(offsets)} newest records from offset {offsets[0]} on were superseded after they"
            " were chosen, and its cleaner removed them: call again"
        )
