"""`latest=true` of the format: the rows of `pipeline.latest`, from a source."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

from pyspark.sql.types import StructType

from ottla.pipeline import latest
from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.snapshot.latest_reader import LatestPartition, LatestReader, PushDownLatestReader, latest_of
from ottla.pipeline.source.data_source_api import EqualTo, Filter, GreaterThan, IsNotNull
from ottla.pipeline.source.read_options import parse_options
from ottla.pipeline.source.source import PUSHDOWN_CONF, OttlaSource
from ottla.pipeline.stores.store import Store
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFiles
from support.logs.make_log import TP, Producer, append, clean, latest_values, make_log, remove_deleted
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def found(data_dir: Path, **options: object) -> dict[bytes, bytes]:
    rows = [row for batch in latest_of(Store(str(data_dir)), TP, SCHEMA, **options) for row in batch.to_pylist()]  # type: ignore[arg-type]
    values = {row["key"]: row["value"] for row in rows}
    assert len(values) == len(rows)
    return values


@pytest.mark.parametrize("seed", range(size(5, 15)))
def test_any_split_returns_the_newest_value_of_each_key(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    append(log, ("first", "1"))
    for number in range(rng.randrange(40)):
        append(log, (f"k{rng.randrange(8)}", None if rng.random() < 0.3 else str(number)), roll=rng.random() < 0.2)
        if rng.random() < 0.1:
            clean(log)
            remove_deleted(log, 1 << 40)
    wanted = {key: value for key, value in latest_values(log).items() if key is not None and value is not None}
    assert found(tmp_path) == wanted
    shares = [found(tmp_path, share=share, shares=3) for share in range(3)]
    assert sum(map(len, shares)) == len(wanted) and {key: each[key] for each in shares for key in each} == wanted
    for key in (b"k1", b"first", b"nowhere"):
        assert found(tmp_path, key=key) == {key: wanted[key] for key in wanted.keys() & {key}}
    log.release_files()


def test_uncommitted_records_are_never_latest(tmp_path: Path) -> None:
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    append(log, ("k", "1"))
    producer = Producer(log, 7, transactional=True)
    producer.write(("k", "aborted"))
    producer.abort()
    producer.write(("k", "open"))
    assert found(tmp_path) == {b"k": b"1"}
    log.release_files()


def test_a_cleaner_that_removes_a_chosen_record_ends_the_read(tmp_path: Path) -> None:
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    append(log, ("a", "1"), roll=True)
    append(log, ("b", "1"), roll=True)
    rows = latest_of(Store(str(tmp_path)), TP, SCHEMA)
    next(rows)
    append(log, ("b", "2"), roll=True)
    append(log, ("c", "1"))
    clean(log)
    remove_deleted(log, 1 << 40)
    with pytest.raises(SourceChangedError, match="call again"):
        list(rows)
    assert found(tmp_path) == {b"a": b"1", b"b": b"2", b"c": b"1"}
    log.release_files()


@pytest.mark.needs_sources("HAS_FILTERS")
def test_only_filters_on_topic_partition_and_key_are_pushed_down(tmp_path: Path) -> None:
    data_dir = str(stored_topic(tmp_path))
    reader = PushDownLatestReader(parse_options({"path": data_dir, "topic": TOPIC}), SCHEMA)
    left = [
        GreaterThan(("offset",), 3),
        GreaterThan(("key",), b"a"),
        EqualTo(("key",), b"other"),
        IsNotNull(("value",)),
    ]
    taken: list[Filter] = [
        EqualTo(("partition",), 1),
        EqualTo(("key",), b"k1"),
        IsNotNull(("key",)),
        EqualTo(("topic",), TOPIC),
    ]
    assert list(reader.pushFilters([*taken, *left])) == left
    (only,) = reader.partitions()
    assert isinstance(only, LatestPartition)
    assert (only.of.partition, only.shares, reader.key) == (1, 1, b"k1")


def test_a_plan_does_not_wait_until_the_high_watermarks_of_all_partitions_are_in_active_segments(
    tmp_path: Path,
) -> None:
    watermark = OffsetCheckpoint(OsFiles(), str(tmp_path / paths.REPLICATION_CHECKPOINT))
    log = make_log(OsFiles(), data_dir=str(tmp_path))
    append(log, ("k", "1"))
    watermark.write({TP: 1})
    append(log, ("k", "2"), roll=True)
    append(log, ("k", "3"))
    (planned,) = LatestReader(parse_options({"path": str(tmp_path)}), SCHEMA).partitions()
    assert isinstance(planned, LatestPartition)
    watermark.write({TP: 3})
    assert found(tmp_path, share=planned.share, shares=planned.shares) == {b"k": b"3"}
    log.release_files()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "earliest"),
        ("endingOffsets", "latest"),
        ("startingTimestamp", "1"),
        ("endingTimestamp", "1"),
        ("startingOffsetsByTimestamp", "{}"),
        ("endingOffsetsByTimestamp", "{}"),
        ("mode", "DROPMALFORMED"),
    ],
)
def test_options_incompatible_with_latest_are_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"option {name}: .* with latest=true"):
        LatestReader(parse_options({"path": "/data", "latest": "true", name: value}), SCHEMA)


def test_a_stream_does_not_support_latest() -> None:
    with pytest.raises(UsageError, match="option latest is for batch reads only"):
        OttlaSource({"path": "/data", "latest": "true"}).streamReader(StructType([]))


def outline(frame: DataFrame) -> list[tuple[int, int, bytes, bytes]]:
    return sorted((row.partition, row.offset, bytes(row.key), bytes(row.value)) for row in frame.collect())


def test_spark_returns_the_rows_of_latest(spark: SparkSession, tmp_path: Path) -> None:
    data_dir = str(stored_topic(tmp_path))
    expected = outline(latest(spark, data_dir, topic=TOPIC))
    reader = spark.read.format("ottla").option("topic", TOPIC).option("latest", "true")
    assert outline(reader.load(data_dir)) == expected
    key = expected[0][2]
    assert spark.conf.get(PUSHDOWN_CONF) == "true"
    pushed = reader.option("pushdown", "true").schema("key binary, value binary").load(data_dir)
    rows = pushed.where(f"key = X'{key.hex()}'").collect()
    assert {bytes(row.value) for row in rows} == {own[3] for own in expected if own[2] == key}
