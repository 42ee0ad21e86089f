"""Newest values of a topic whose records have versions (KIP-280)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.dataset as ds

from ottla.pipeline.records.fine_buckets import Buckets
from ottla.pipeline.snapshot.latest_reader import latest_of
from ottla.pipeline.snapshot.snapshot import SCHEMA, newest, newest_of, take_snapshot
from ottla.pipeline.snapshot.snapshot_rounds import first_round
from ottla.pipeline.stores.store import Store
from ottla.storage.disk.paths import TopicPartition
from support.pipeline.stored_topic import TOPIC, versioned_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATEST = [(0, b"k", b"right"), (6, b"c", b"versioned"), (8, b"d", b"late")]
TP = TopicPartition(TOPIC, 0)


def outline(path: Path) -> list[tuple[int, bytes, bytes]]:
    rows = ds.dataset(path, format="parquet").to_table().to_pylist()
    return sorted((row["offset"], row["key"], row["value"]) for row in rows)


def test_a_snapshot_has_the_highest_version_of_each_key(tmp_path: Path) -> None:
    take_snapshot(Store(str(versioned_topic(tmp_path))), TOPIC, str(tmp_path / "out"), now_ms=1_000)
    assert outline(tmp_path / "out") == LATEST


def test_the_latest_records_are_the_same_in_any_number_of_shares(tmp_path: Path) -> None:
    store = Store(str(versioned_topic(tmp_path)))
    for shares in (1, 3):
        batches = [each for share in range(shares) for each in latest_of(store, TP, SCHEMA, share=share, shares=shares)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert sorted((row["offset"], row["key"], row["value"]) for row in rows) == LATEST


def test_keys_returned_in_parts_are_the_same_keys(tmp_path: Path) -> None:
    store = Store(str(versioned_topic(tmp_path)))
    of = first_round(store, [TP])
    for number, task in enumerate(of.tasks):
        parts = list(newest_of(task, number, of.versions, rows_at_once=1))
        assert newest(parts).tobytes() == newest(newest_of(task, number, of.versions)).tobytes()


@pytest.mark.parametrize("buckets", [None, Buckets(2, 3)])
def test_spark_chooses_the_same_records(spark: SparkSession, tmp_path: Path, buckets: Buckets | None) -> None:
    from ottla.pipeline.snapshot.latest import latest
    from ottla.pipeline.snapshot.snapshot_job import rounds_on

    data_dir = versioned_topic(tmp_path)
    take_snapshot(
        Store(str(data_dir)), TOPIC, str(tmp_path / "out"), rounds_on(spark, TOPIC, buckets=buckets), now_ms=1_000
    )
    assert outline(tmp_path / "out") == LATEST
    found = latest(spark, str(data_dir), topic=TOPIC, columns=["offset", "key", "value"], buckets=buckets).collect()
    assert sorted((row.offset, bytes(row.key), bytes(row.value)) for row in found) == LATEST
