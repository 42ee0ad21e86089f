"""Snapshots: the latest value of each key, in files that are written once."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.dataset as ds

from ottla.pipeline.errors import CorruptSourceError, UsageError
from ottla.pipeline.snapshot.snapshot import SCHEMA, SnapshotResult, newest, newest_of, take_snapshot
from ottla.pipeline.snapshot.snapshot_rounds import first_round
from ottla.pipeline.stores.store import Store
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import FULL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATEST = [
    (0, 2, b"c", b"1"),
    (0, 3, b"z", b"1"),
    (0, 8, b"d", b"1"),
    (0, 9, b"a", b"3"),
    (1, 1, b"a", b"p1 again"),
    (1, 2, b"e", b"1"),
]
"""The latest values; `b` is deleted, `x` aborted."""


def rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ds.dataset(path, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def outline(path: Path) -> list[tuple[int, int, bytes, bytes]]:
    return [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows(path)]


def test_a_snapshot_has_the_latest_value_of_each_key_per_partition(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = take_snapshot(Store(str(stored_topic(tmp_path))), TOPIC, str(out), now_ms=1_000)
    assert outline(out) == LATEST
    assert made == SnapshotResult(str(out), 6, 2, made.parts)
    first = rows(out)[0]
    assert list(first) == SCHEMA.names
    assert (first["topic"], first["timestampMs"], first["timestamp"].timestamp()) == (TOPIC, 1_000, 1.0)
    assert first["headers"] == [{"key": "h", "value": b"1"}]


def test_a_single_partition_can_be_snapshotted(tmp_path: Path) -> None:
    take_snapshot(Store(str(stored_topic(tmp_path))), TOPIC, str(tmp_path / "out"), partition=1, now_ms=1_000)
    assert outline(tmp_path / "out") == [row for row in LATEST if row[0] == 1]


def test_an_existing_folder_is_refused_unless_overwriting_is_allowed(tmp_path: Path) -> None:
    store, out = Store(str(stored_topic(tmp_path))), tmp_path / "out"
    take_snapshot(store, TOPIC, str(out), partition=1, now_ms=1_000)
    with pytest.raises(UsageError, match=f"{out}: expected a new folder, found an existing one"):
        take_snapshot(store, TOPIC, str(out), now_ms=1_000)
    assert len(outline(out)) == 2
    take_snapshot(store, TOPIC, str(out), overwrite=True, now_ms=1_000)
    assert outline(out) == LATEST


def test_a_folder_with_other_content_is_never_replaced(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    with pytest.raises(UsageError, match="expected a snapshot to replace, found something else"):
        take_snapshot(Store(str(data_dir)), TOPIC, str(data_dir), overwrite=True, now_ms=1_000)
    assert (data_dir / f"{TOPIC}-0").is_dir()


def test_damage_leaves_the_old_snapshot_and_nothing_new(tmp_path: Path) -> None:
    data_dir, out = stored_topic(tmp_path), tmp_path / "out"
    take_snapshot(Store(str(data_dir)), TOPIC, str(out), now_ms=1_000)
    log = data_dir / f"{TOPIC}-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:70] + b"x" + log.read_bytes()[71:])
    with pytest.raises(CorruptSourceError, match=rf"{log}, byte 0, offset 0: expected CRC-32C .*, found"):
        take_snapshot(Store(str(data_dir)), TOPIC, str(out), overwrite=True, now_ms=1_000)
    assert outline(out) == LATEST
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]


def test_a_topic_of_deleted_keys_gives_an_empty_snapshot(tmp_path: Path) -> None:
    from ottla.storage.disk.os_files import OsFiles
    from ottla.storage.disk.paths import TopicPartition
    from support.logs.make_log import append, make_log

    log = make_log(OsFiles(), tp=TopicPartition("gone", 0), data_dir=str(tmp_path / "data"))
    append(log, ("a", "1"))
    append(log, ("a", None))
    log.close(1_000)
    take_snapshot(Store(str(tmp_path / "data")), "gone", str(tmp_path / "out"), now_ms=1_000)
    assert rows(tmp_path / "out") == []


def test_keys_returned_in_parts_are_the_same_keys(tmp_path: Path) -> None:
    store = Store(str(stored_topic(tmp_path)))
    for number, task in enumerate(first_round(store, store.topic_partitions(TOPIC)).tasks):
        parts = list(newest_of(task, number, rows_at_once=1))
        assert newest(parts).tobytes() == newest(newest_of(task, number)).tobytes()
        assert len(parts) > 1


def test_a_round_is_never_sent_to_tasks(tmp_path: Path) -> None:
    """Each of them would load the plan of all parts."""
    store = Store(str(stored_topic(tmp_path)))
    with pytest.raises(TypeError, match="a round stays on the driver"):
        pickle.dumps(first_round(store, store.topic_partitions(TOPIC)))


def test_spark_writes_the_same_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.pipeline.snapshot.snapshot_job import rounds_on

    data_dir = stored_topic(tmp_path)
    local, out = tmp_path / "local", tmp_path / "out"
    expected = take_snapshot(Store(str(data_dir)), TOPIC, str(local), now_ms=1_000)
    made = take_snapshot(Store(str(data_dir)), TOPIC, str(out), rounds_on(spark, TOPIC), now_ms=1_000)
    assert made == expected._replace(path=str(out))
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in local.iterdir()
    }
    if FULL:  # otherwise the same bytes have the same rows
        found = spark.read.parquet(str(out)).orderBy("partition", "offset").collect()
        assert [(row.key, row.offset) for row in found] == [(key, offset) for _, offset, key, _ in LATEST]
    with pytest.raises(UsageError, match="expected a new folder"):
        take_snapshot(Store(str(data_dir)), TOPIC, str(out), rounds_on(spark, TOPIC), now_ms=1_000)
