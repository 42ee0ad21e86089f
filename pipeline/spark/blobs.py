"""Rows that are blobs: some numbers, and bytes that a task has for another one.

There are as many as tasks and buckets multiply to, however many records there are. The first number, `task`, says where a
row goes: `exchanged` names partitions by number, for anything else would be coalesced to a task or two (the blobs are
small where the work they stand for is not), or would put two buckets into one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from ...storage.disk.files import Buffer
from .tasks import Batches, Task, mapped


class BlobRows:
    """One kind of rows."""

    def __init__(self, *more: str) -> None:
        """
        Args:
            more: Names of the numbers behind `task`, of 32 bits each.
        """
        self._numbers = ("task", *more)
        self.schema = pa.schema([*((name, pa.int32()) for name in self._numbers), ("data", pa.binary())])

    def row(self, *numbers: int, data: Buffer) -> pa.RecordBatch:
        """A batch of one row, without a copy of the data."""
        edges = pa.py_buffer(struct.pack("=ii", 0, len(data)))
        columns = [pa.array([number], pa.int32()) for number in numbers]
        columns.append(pa.Array.from_buffers(pa.binary(), 1, [None, edges, pa.py_buffer(data)]))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def read(self, batches: Batches) -> Iterator[tuple[tuple[int, ...], memoryview]]:
        """(numbers, data) of each row, without a copy of the data."""
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns[:-1])
            for *numbers, data in zip(*columns, batch.columns[-1], strict=True):
                yield tuple(numbers), memoryview(data.as_buffer())

    def exchanged(self, frame: DataFrame, task: Task, partitions: int) -> DataFrame:
        """What the task makes of the frame, rows of this kind: each in the partition of its `task`, of so many."""
        return mapped(frame, task, self.schema).repartitionById(partitions, "task")
