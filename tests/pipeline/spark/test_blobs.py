"""Rows of numbers and bytes are read as they were made."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import SparkFailedError
from ottla.pipeline.spark.blobs import BlobRows
from ottla.pipeline.spark.tasks import attempt_of


def test_a_row_is_read_as_it_was_made() -> None:
    kind = BlobRows("source", "kind")
    rows = [((0, 7, 2), b"\0\xff"), ((5, 0, -1), b""), ((2**31 - 1, 1, 1), bytes(range(256)))]
    batches = [kind.row(*numbers, data=memoryview(data)) for numbers, data in rows]
    assert all(batch.schema == kind.schema for batch in batches)
    assert kind.schema.names == ["task", "source", "kind", "data"]
    assert [(numbers, bytes(data)) for numbers, data in kind.read(iter(batches))] == rows


def test_data_outlives_the_batch_that_brought_it() -> None:
    kind = BlobRows()
    found = list(kind.read(kind.row(number, data=bytes([number]) * 1_000) for number in range(50)))
    assert [bytes(data) for _, data in found] == [bytes([number]) * 1_000 for number in range(50)]


def test_only_a_task_has_an_attempt() -> None:
    with pytest.raises(SparkFailedError, match="outside of one"):
        attempt_of("app-1")
