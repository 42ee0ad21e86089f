"""Rows of numbers and bytes are read as they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import numpy as np
from pyspark.sql import functions as F

from ottla.pipeline.errors import ExitCode, PipelineError
from ottla.pipeline.spark.blobs import BATCH_BYTES, BATCH_ROWS, BlobRows, place_of
from ottla.pipeline.spark.tasks import Batches, attempt_of, collected, mapped, numbers, work
from support.sizes import size, some

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_row_reads_back_as_made() -> None:
    kind = BlobRows("source", "kind")
    rows = [((0, 7, 2), b"\0\xff"), ((5, 0, -1), b""), ((2**31 - 1, 1, 1), bytes(range(256)))]
    batches = [kind.row(*numbers, data=memoryview(data)) for numbers, data in rows]
    assert all(batch.schema == kind.schema for batch in batches)
    assert kind.schema.names == ["task", "source", "kind", "data"]
    assert [(numbers, bytes(data)) for numbers, data in kind.read(iter(batches))] == rows


def test_data_outlive_their_batch() -> None:
    kind = BlobRows()
    found = list(kind.read(kind.row(number, data=bytes([number]) * 1_000) for number in range(50)))
    assert [bytes(data) for _, data in found] == [bytes([number]) * 1_000 for number in range(50)]


def test_only_a_task_has_an_attempt() -> None:
    with pytest.raises(PipelineError, match="outside of one", check=lambda error: error.exit_code == ExitCode.FAILED):
        attempt_of("app-1")


def test_rows_share_batches_and_large_rows_are_sent_separately() -> None:
    kind = BlobRows("source")
    small = [((number, 1), bytes([number % 256]) * (number % 3)) for number in range(BATCH_ROWS + 5)]
    rows = [*small, ((1, 2), b"x" * BATCH_BYTES), ((7, 3), b"y")]
    batches = list(kind.rows(rows))
    assert [batch.num_rows for batch in batches] == [BATCH_ROWS, 6, 1]
    assert [(numbers, bytes(data)) for numbers, data in kind.read(iter(batches))] == rows
    assert list(kind.rows([])) == []


def test_the_hash_of_a_place_is_its_partition(spark: SparkSession) -> None:
    """Rows are exchanged by this hash if Spark cannot use partitions directly (before 4.1)."""
    partitions = [*range(2_000), 2**31 - 1]
    places = place_of(np.array(partitions, np.int32)).tolist()
    frame = spark.createDataFrame([(each,) for each in places], "place int")
    assert [each.hash for each in frame.select(F.hash("place").alias("hash")).collect()] == partitions


class WithoutIds:
    """A frame of PySpark 4.0."""

    def __init__(self, frame: DataFrame) -> None:
        self.mapInArrow = frame.mapInArrow


@pytest.mark.parametrize(("has_ids", "is_made"), some([(True, False), (False, False), (True, True), (False, True)], 2))
def test_rows_are_where_their_tasks_are(spark: SparkSession, has_ids: bool, is_made: bool) -> None:
    kind, partitions = BlobRows(), size(6, 40)
    frame = work(spark, 100, 3)

    def rows(batches: Batches) -> Batches:
        yield from kind.rows(((number % partitions,), b"%d" % number) for number in numbers(batches))

    def seen(batches: Batches) -> Batches:
        found = [(task, int(bytes(data))) for (task,), data in kind.read(batches)]
        assert len({task for task, _ in found}) <= 1, "of each partition one"
        yield from kind.rows(((task,), b"%d %d" % (task, number)) for task, number in found)

    if is_made:
        made: DataFrame = mapped(frame, rows, kind.schema)
        exchanged = kind.exchanged(made if has_ids else WithoutIds(made), None, partitions)  # type: ignore[arg-type]
    else:
        exchanged = kind.exchanged(frame if has_ids else WithoutIds(frame), rows, partitions)  # type: ignore[arg-type]
    assert exchanged.rdd.getNumPartitions() == partitions
    found = sorted(
        tuple(map(int, bytes(each.data).split())) for each in collected(mapped(exchanged, seen, kind.schema))
    )
    assert found == sorted((number % partitions, number) for number in range(100))
