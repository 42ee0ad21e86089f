"""Blob rows: some numbers, and bytes that one task sends another.

They are few, however many records there are (see `records.fine_buckets`). The first number, `task`, is the row's target:
`exchanged` addresses partitions by number. With another partitioning Spark would coalesce them to a task or two, as
the blobs are small compared to the work on them, or it would put two buckets into one.

Many rows share one Arrow batch: a batch costs Python and the JVM as much as the bytes of a hundred thousand records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ...storage.disk.files import Buffer
from .tasks import Batches, Task, mapped

BATCH_BYTES, BATCH_ROWS = 1 << 20, 4_096
"""A batch ends with the row that reaches either limit. A single larger row is not copied."""

PLACE = "place"
_SEED, _ADDED, _LENGTH = 42, 0xE6546B64, 4
_MASK = 0xFFFFFFFF


class BlobRows:
    """One kind of blob rows."""

    def __init__(self, *more: str) -> None:
        """
        Args:
            more: Names of the numbers after `task`, of 32 bits each.
        """
        self._numbers = ("task", *more)
        self.schema = pa.schema([*((name, pa.int32()) for name in self._numbers), ("data", pa.binary())])

    def rows(self, given: Iterable[tuple[Sequence[int], Buffer]]) -> Batches:
        """Yield Arrow batches of these rows of numbers and data."""
        numbers: list[Sequence[int]] = []
        datas: list[Buffer] = []
        size_bytes = 0
        for each, data in given:
            numbers.append(each)
            datas.append(data)
            size_bytes += len(data)
            if size_bytes >= BATCH_BYTES or len(numbers) >= BATCH_ROWS:
                yield self._batch(numbers, datas)
                numbers, datas, size_bytes = [], [], 0
        if numbers:
            yield self._batch(numbers, datas)

    def row(self, *numbers: int, data: Buffer) -> pa.RecordBatch:
        """Return a batch of one row, without a copy of the data."""
        return self._batch([numbers], [data])

    def _batch(self, numbers: list[Sequence[int]], datas: list[Buffer]) -> pa.RecordBatch:
        edges = np.zeros(len(datas) + 1, np.int32)
        np.cumsum([len(data) for data in datas], out=edges[1:])
        whole = datas[0] if len(datas) == 1 else b"".join(datas)
        columns = [pa.array(column, pa.int32()) for column in zip(*numbers, strict=True)]
        columns.append(pa.Array.from_buffers(pa.binary(), len(datas), [None, pa.py_buffer(edges), pa.py_buffer(whole)]))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def read(self, batches: Batches) -> Iterator[tuple[tuple[int, ...], memoryview]]:
        """Yield the numbers and data of each row, without a copy of the data."""
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns[:-1])
            for *numbers, data in zip(*columns, batch.columns[-1], strict=True):
                yield tuple(numbers), memoryview(data.as_buffer())

    def frame(self, spark: SparkSession, rows: Iterable[tuple[Sequence[int], Buffer]]) -> DataFrame:
        """Return a frame of rows that the driver has. `exchanged` brings each to its task.

        So a task receives its part of a plan. A closure with the plan would be loaded whole by every task.
        """
        table = pa.Table.from_batches(self.rows(rows), self.schema)
        if hasattr(type(spark), "dataSource"):  # from PySpark 4.0 on
            return spark.createDataFrame(table)
        return spark.createDataFrame(table.to_pandas(), from_arrow_schema(self.schema))

    def exchanged(self, frame: DataFrame, task: Task | None, partitions: int) -> DataFrame:
        """Run the task on the frame and return its rows, each in the partition of its `task`.

        Args:
            task: None if the frame has the rows already.
            partitions: The number of partitions.
        """
        if hasattr(frame, "repartitionById"):  # from PySpark 4.1 on
            made = frame if task is None else mapped(frame, task, self.schema)
            return made.repartitionById(partitions, "task")

        def with_places(batches: Batches) -> Batches:
            for batch in batches if task is None else task(batches):
                places = place_of(batch.column(0).to_numpy())
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(places)], schema=schema)

        schema = self.schema.append(pa.field(PLACE, pa.int32()))
        return mapped(frame, with_places, schema).repartition(partitions, PLACE).drop(PLACE)


def place_of(partitions: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return numbers that Spark's hash of partitions maps to these partitions, for Spark before 4.1.

    `repartition(n, column)` puts a row into the partition pmod(hash(column), n). That hash, Murmur3 with a seed of 42, maps
    numbers of 32 bits to such numbers one to one. This inverts it: each returned number has a partition's number as its hash.
    """
    h = partitions.astype(np.uint64)
    h = _multiplied(h ^ h >> np.uint64(16), _inverse(0xC2B2AE35))
    h = _multiplied(h ^ h >> np.uint64(13) ^ h >> np.uint64(26), _inverse(0x85EBCA6B))
    h ^= h >> np.uint64(16) ^ np.uint64(_LENGTH)
    h = _multiplied(h + np.uint64((1 << 32) - _ADDED) & np.uint64(_MASK), _inverse(5))
    h = _multiplied(_turned_back(h, 13) ^ np.uint64(_SEED), _inverse(0x1B873593))
    return _multiplied(_turned_back(h, 15), _inverse(0xCC9E2D51)).astype(np.uint32).view(np.int32)


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _multiplied(values: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    return values * np.uint64(factor) & np.uint64(_MASK)  # wraps at 64 bits, of which the lower half is right


def _turned_back(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values >> np.uint64(bits) | values << np.uint64(32 - bits)) & np.uint64(_MASK)
