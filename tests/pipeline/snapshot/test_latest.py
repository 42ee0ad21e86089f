"""The latest value of each key as a frame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from ottla.pipeline import latest
from ottla.pipeline.errors import PipelineError, SourceChangedError, UsageError
from ottla.pipeline.records.fine_buckets import Buckets
from ottla.pipeline.snapshot.snapshot import SCHEMA, take_snapshot
from ottla.pipeline.spark.failures import failures_translated
from ottla.pipeline.stores.store import Store
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.logs.make_log import append, clean, make_log, remove_deleted
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import FULL

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def outline(rows: Sequence[Row]) -> list[tuple[int, int, bytes, bytes]]:
    return sorted((row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in rows)


def test_latest_returns_the_rows_of_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = str(stored_topic(tmp_path))
    take_snapshot(Store(data_dir), TOPIC, str(tmp_path / "out"), now_ms=1_000)
    there = spark.read.parquet(str(tmp_path / "out"))
    found = latest(spark, data_dir, topic=TOPIC, buckets=Buckets(3, 2))
    assert found.columns == SCHEMA.names
    rows, expected = found.collect(), there.collect()
    assert outline(rows) == outline(expected) and len(rows) == 6
    assert {row.timestamp for row in rows} == {row.timestamp for row in expected}
    assert outline(latest(spark, data_dir, topic=TOPIC, partition=1).collect()) == [
        row for row in outline(expected) if row[0] == 1
    ]
    if FULL:
        assert outline(latest(spark, data_dir, topic=TOPIC).collect()) == outline(expected)


def test_only_the_named_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    found = latest(spark, str(stored_topic(tmp_path)), topic=TOPIC, columns=["value", "key"])
    assert found.columns == ["value", "key"]
    assert sorted(bytes(row.key) for row in found.collect()) == [b"a", b"a", b"c", b"d", b"e", b"z"]


def test_any_sink_accepts_the_frame(spark: SparkSession, tmp_path: Path) -> None:
    found = latest(spark, str(stored_topic(tmp_path)), topic=TOPIC, columns=["key", "value"])
    found.selectExpr("string(key) key", "string(value) value").write.json(str(tmp_path / "sink"))
    rows = [json.loads(line) for part in (tmp_path / "sink").glob("*.json") for line in part.read_text().splitlines()]
    assert {"key": "d", "value": "1"} in rows and len(rows) == 6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topic": "nope"}, "has no log of nope"),
        ({"topic": TOPIC, "partition": 9}, "has no log of orders-9"),
        ({"topic": TOPIC, "columns": ["keys"]}, "unknown column keys; columns are key, value, topic"),
    ],
)
def test_a_missing_topic_is_refused_at_once(
    spark: SparkSession, tmp_path: Path, options: dict[str, object], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        latest(spark, str(stored_topic(tmp_path)), **options)  # type: ignore[arg-type]


def log_in(data_dir: Path) -> Log:
    return make_log(OsFiles(), tp=TopicPartition(TOPIC, 0), data_dir=str(data_dir), segment_bytes=1 << 20)


def test_a_topic_without_keys_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    log_in(tmp_path).close(0)
    assert latest(spark, str(tmp_path), topic=TOPIC).collect() == []


def test_records_after_the_call_are_not_included(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    append(log, ("a", "1"), ("b", "1"), roll=True)
    found = latest(spark, str(tmp_path), topic=TOPIC)
    append(log, ("a", "2"), ("c", "1"))
    assert [row[2:] for row in outline(found.collect())] == [(b"a", b"1"), (b"b", b"1")]
    log.close(0)


def test_a_frame_contains_every_key_despite_a_concurrent_cleaner(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    append(log, ("a", "1"), ("b", "1"), roll=True)
    append(log, ("c", "1"))
    found = latest(spark, str(tmp_path), topic=TOPIC)
    append(log, ("a", "2"), roll=True)
    append(log, ("d", "1"))
    clean(log)
    remove_deleted(log, 10**15)
    with pytest.raises(PipelineError) as raised, failures_translated():
        found.collect()
    assert isinstance(raised.value, SourceChangedError)
    assert "1 of 2 newest records from offset 0 on were superseded after they were chosen" in str(raised.value)
    again = outline(latest(spark, str(tmp_path), topic=TOPIC).collect())
    assert [row[2:] for row in again] == [(b"b", b"1"), (b"c", b"1"), (b"a", b"2"), (b"d", b"1")]
    log.close(0)
