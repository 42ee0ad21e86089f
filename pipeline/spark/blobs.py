"""Rows that are blobs: some numbers, and bytes that a task has for another one.

There are few, however many records there are (`records.fine_buckets` says how many). The first number, `task`, says where a
row goes: `exchanged` names partitions by number, for anything else would be coalesced to a task or two (the blobs are
small where the work they stand for is not), or would put two buckets into one.

Many rows go into one batch of Arrow: a batch costs Python and the JVM as much as the bytes of a hundred thousand records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from ...storage.disk.files import Buffer
from .tasks import Batches, Task, mapped

BATCH_BYTES, BATCH_ROWS = 1 << 20, 4_096
"""A batch ends with the row that reaches either. What is larger by itself goes without a copy."""

PLACE = "place"
_SEED, _ADDED, _LENGTH = 42, 0xE6546B64, 4
_MASK = 0xFFFFFFFF


class BlobRows:
    """One kind of rows."""

    def __init__(self, *more: str) -> None:
        """
        Args:
            more: Names of the numbers behind `task`, of 32 bits each.
        """
        self._numbers = ("task", *more)
        self.schema = pa.schema([*((name, pa.int32()) for name in self._numbers), ("data", pa.binary())])

    def rows(self, given: Iterable[tuple[Sequence[int], Buffer]]) -> Batches:
        """Batches of (numbers, data)."""
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
        """A batch of one row, without a copy of the data."""
        return self._batch([numbers], [data])

    def _batch(self, numbers: list[Sequence[int]], datas: list[Buffer]) -> pa.RecordBatch:
        edges = np.zeros(len(datas) + 1, np.int32)
        np.cumsum([len(data) for data in datas], out=edges[1:])
        whole = datas[0] if len(datas) == 1 else b"".join(datas)
        columns = [pa.array(column, pa.int32()) for column in zip(*numbers, strict=True)]
        columns.append(pa.Array.from_buffers(pa.binary(), len(datas), [None, pa.py_buffer(edges), pa.py_buffer(whole)]))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def read(self, batches: Batches) -> Iterator[tuple[tuple[int, ...], memoryview]]:
        """(numbers, data) of each row, without a copy of the data."""
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns[:-1])
            for *numbers, data in zip(*columns, batch.columns[-1], strict=True):
                yield tuple(numbers), memoryview(data.as_buffer())

    def exchanged(self, frame: DataFrame, task: Task | None, partitions: int) -> DataFrame:
        """What the task makes of the frame, rows of this kind: each in the partition of its `task`, of so many.

        Args:
            task: None if the frame has the rows already.
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
    """Numbers that Spark's hash of partitions makes these partitions of, from 0 on, where it cannot be told of them (before PySpark 4.1).

    `repartition(n, column)` puts a row into the partition pmod(hash(column), n), and that hash, Murmur3 with a seed of 42, maps
    numbers of 32 bits to such numbers one to one. So there is a number whose hash is a partition's own, and this finds it.
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
