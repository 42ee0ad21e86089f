"""The data of Spark's connector, partition by partition."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

import pyarrow as pa

from ottla.pipeline.wire.scanned import by_partition

from .tasks import SCHEMA, Record


def batch(*places: tuple[int, int]) -> pa.RecordBatch:
    rows = [Record(partition, offset, b"k", False, 0, 0)._asdict() for partition, offset in places]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def test_a_batch_of_several_partitions_is_divided_in_order() -> None:
    batches = [batch((1, 5), (1, 6)), batch(), batch((1, 7), (0, 1), (0, 2), (1, 8)), batch((1, 9), (0, 3), (1, 10))]
    found = [(partition, own.column("offset").to_pylist()) for partition, own in by_partition(iter(batches))]
    assert found == [(1, [5, 6]), (1, [7, 8]), (0, [1, 2]), (1, [9, 10]), (0, [3])]
