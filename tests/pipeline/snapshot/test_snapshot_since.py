"""Snapshots since an earlier one: what they read, their content, and when they are refused."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.parquet as pq

from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.records.fine_buckets import Buckets
from ottla.pipeline.snapshot import manifest, snapshot
from ottla.pipeline.snapshot.layers import Since, SnapshotResult
from ottla.pipeline.snapshot.manifest import MANIFEST, layer_directories
from ottla.pipeline.snapshot.places import since_of
from ottla.pipeline.snapshot.snapshot import take_snapshot
from ottla.pipeline.snapshot.stored_rows import StoredSnapshot
from ottla.pipeline.stores.store import Store
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.logs.make_log import Producer, append, clean, cut_off, make_log, remove_deleted
from support.sizes import FULL, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
LIVES = size(5, 20)
Row = tuple[int, bytes, int, bytes]


class Topic:
    """A topic's data directory, whose logs grow, and its snapshots."""

    def __init__(self, directory: Path, partitions: int = 1) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.logs = [self.log(number) for number in range(partitions)]
        self.now_ms = DAY_MS
        self._count = 0

    def log(self, partition: int) -> Log:
        place = TopicPartition("t", partition)
        return make_log(OsFiles(), tp=place, data_dir=str(self.data_dir), segment_bytes=1 << 20, file_delete_delay_ms=0)

    def take(self, since: Path | None = None, out: Path | None = None) -> Path:
        self._count += 1
        out = out or self.directory / f"snapshot-{self._count}"
        self.result = self.into(out, since)
        return out

    def into(self, out: Path, since: Path | None) -> SnapshotResult:
        store = Store(str(self.data_dir))
        return take_snapshot(
            store,
            "t",
            str(out),
            now_ms=self.now_ms,
            overwrite=out.exists(),
            since=None if since is None else self.since(since),
        )

    def since(self, snapshot: Path) -> Since:
        return since_of(Store(str(self.data_dir)), str(snapshot), "t", None, now_ms=lambda: self.now_ms)

    def close(self) -> None:
        for log in self.logs:
            log.close(0)


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    made = Topic(tmp_path)
    yield made
    made.close()


def rows(snapshot: Path) -> list[Row]:
    found: list[dict[str, Any]] = [
        row for batch in StoredSnapshot(str(snapshot)).batches() for row in batch.to_pylist()
    ]
    return sorted((row["partition"], row["key"], row["offset"], row["value"]) for row in found)


def values(snapshot: Path) -> dict[bytes, bytes]:
    return {key: value for _, key, _, value in rows(snapshot)}


def test_only_changes_are_written_and_the_other_rows_stay_the_same(topic: Topic) -> None:
    (log,) = topic.logs
    append(log, ("a", "1"), ("b", "1"), ("c", "1"))
    first = topic.take()
    append(log, ("b", "2"), ("c", None), ("d", "1"), ("e", "1"), ("e", None))
    second = topic.take(since=first)
    assert topic.result.keys == 4 and topic.result.since == str(first)
    assert values(second) == {b"a": b"1", b"b": b"2", b"d": b"1"}
    assert rows(second) == rows(topic.take())
    old, changed = layer_directories(str(second), StoredSnapshot(str(second)).manifest)
    assert (Path(old) / "part-00000.parquet").samefile(first / "part-00000.parquet"), "a hard link, not a copy"
    assert {row["key"]: row["value"] for row in pq.read_table(changed).to_pylist()} == {
        b"b": b"2",
        b"c": None,
        b"d": b"1",
        b"e": None,
    }


def test_a_snapshot_without_changes_is_valid(topic: Topic) -> None:
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    assert rows(topic.take(since=first)) == rows(first)
    assert topic.result.keys == 0


def test_a_snapshot_may_replace_its_base(topic: Topic) -> None:
    (log,) = topic.logs
    append(log, ("a", "1"))
    out = topic.take()
    for number in range(2, 6):
        append(log, ("a", f"{number}"), (f"k{number}", "1"))
        topic.take(since=out, out=out)
    assert values(out) == {b"a": b"5"} | {b"k%d" % number: b"1" for number in range(2, 6)}
    assert sorted(path.name for path in topic.directory.iterdir()) == ["data", "snapshot-1"]


def test_the_earlier_snapshot_may_be_deleted(topic: Topic) -> None:
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    append(topic.logs[0], ("b", "1"))
    second = topic.take(since=first)
    shutil.rmtree(first)
    assert values(second) == {b"a": b"1", b"b": b"1"}


def test_a_reader_without_layer_support_finds_no_rows(spark: SparkSession, topic: Topic) -> None:
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    append(topic.logs[0], ("a", "2"))
    second = topic.take(since=first)
    assert spark.read.parquet(str(first)).count() == 1, "a full one has a manifest beside its rows"
    with pytest.raises(Exception, match="UNABLE_TO_INFER_SCHEMA"):
        spark.read.parquet(str(second))


def test_a_key_deleted_by_retention_is_absent(topic: Topic) -> None:
    (log,) = topic.logs
    append(log, ("old", "1"), roll=True)
    append(log, ("a", "1"))
    first = topic.take()
    append(log, ("b", "1"))
    log.advance_log_start(1)
    log.close(0)
    (topic.data_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    topic.logs = [topic.log(0)]
    second = topic.take(since=first)
    assert values(second) == {b"a": b"1", b"b": b"1"}
    assert rows(second) == rows(topic.take())


def test_a_new_partition_is_read_from_its_start(tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    topic.logs.append(topic.log(1))
    append(topic.logs[1], ("a", "of 1"))
    assert rows(topic.take(since=first)) == [(0, b"a", 0, b"1"), (1, b"a", 0, b"of 1")]
    topic.close()


@pytest.mark.parametrize(
    ("later_ms", "text"),
    [
        (
            DAY_MS,
            "expected a snapshot less than 86400000 ms old .*found 86400000 ms: tombstones since then may have been removed",
        ),
        (-1, "found -1 ms"),
    ],
)
def test_a_base_older_than_tombstone_retention_is_refused(topic: Topic, later_ms: int, text: str) -> None:
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    topic.now_ms += later_ms
    with pytest.raises(UsageError, match=text):
        topic.take(since=first)
    topic.now_ms = 2 * DAY_MS - 1
    topic.take(since=first)


def test_a_base_that_expires_during_the_read_is_refused(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner may remove tombstones as soon as their time has passed: the records they deleted must not come back."""
    (log,) = topic.logs
    append(log, ("a", "1"), ("b", "1"))
    first = topic.take()
    append(log, ("a", None), roll=True)
    real = snapshot.keys_of

    def slow(*arguments: Any, **options: Any) -> Any:
        topic.now_ms += DAY_MS
        return real(*arguments, **options)

    monkeypatch.setattr(snapshot, "keys_of", slow)
    with pytest.raises(UsageError, match="tombstones since then may have been removed"):
        topic.take(since=first)
    assert sorted(path.name for path in topic.directory.iterdir()) == ["data", "snapshot-1"]


def test_the_number_of_layers_is_limited(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LAYERS_MAX", 3)
    append(topic.logs[0], ("a", "1"))
    out = topic.take()
    for _ in range(2):
        topic.take(since=out, out=out)
    with pytest.raises(UsageError, match="expected fewer than 3 layers, found 3: take a full one"):
        topic.take(since=out, out=out)


def test_an_unsuitable_base_is_refused(topic: Topic, tmp_path: Path) -> None:
    append(topic.logs[0], ("a", "1"))
    first = topic.take()
    with pytest.raises(UsageError, match="expected an earlier snapshot, found none"):
        topic.since(tmp_path / "nowhere")
    store = Store(str(topic.data_dir))
    with pytest.raises(UsageError, match="expected a snapshot of u, found one of t"):
        since_of(store, str(first), "u", None, now_ms=lambda: DAY_MS)
    with pytest.raises(UsageError, match="expected a snapshot of partition 3, found one of 0"):
        since_of(store, str(first), "t", 3, now_ms=lambda: DAY_MS)
    (first / MANIFEST).write_text('{"version": 2}')
    with pytest.raises(UsageError, match="expected version 1, found 2"):
        topic.since(first)
    for text in (
        "",
        "[]",
        '{"version": 1}',
        '{"version": 1, "topic": "t", "taken_at_ms": "x", "partitions": {}, "layers": 0}',
    ):
        (first / MANIFEST).write_text(text)
        with pytest.raises(UsageError, match="expected the manifest of a snapshot"):
            topic.since(first)
    (first / MANIFEST).unlink()
    with pytest.raises(UsageError, match="take a full one"):
        topic.since(first)


def test_a_log_that_ends_before_the_snapshot_is_refused(topic: Topic) -> None:
    append(topic.logs[0], ("a", "1"), ("b", "1"))
    first = topic.take()
    cut_off(topic.logs[0], 0)
    with pytest.raises(SourceChangedError, match="its end was truncated"):
        topic.take(since=first)


def history(seed: str, directory: Path) -> int:
    """Check that snapshots since earlier ones equal full ones, at any moment of a random history; return their number."""
    rng = random.Random(seed)
    topic = Topic(directory, partitions=rng.choice([1, 1, 2]))
    keys = [f"k{number}" for number in range(rng.choice([3, 10]))]
    taken: list[Path] = []
    compared = 0
    producers = {log: Producer(log, 7 + number, transactional=True) for number, log in enumerate(topic.logs)}
    for _ in range(rng.randrange(10, 30)):
        log = rng.choice(topic.logs)
        what = rng.random()
        topic.now_ms += rng.randrange(1_000)
        if what < 0.45:
            pairs = [(rng.choice(keys), rng.choice([None, "1", "2"])) for _ in range(rng.randrange(1, 5))]
            append(log, *pairs, timestamp=topic.now_ms, roll=rng.random() < 0.4)
        elif what < 0.6:
            producers[log].write(rng.choice(keys))
            rng.choice([producers[log].abort, producers[log].commit])()
        elif what < 0.75:
            clean(log, now_ms=topic.now_ms)
            remove_deleted(log, 10**15)
        else:
            since = rng.choice([None, *taken])
            taken.append(topic.take(since=since))
            if since is not None:
                assert rows(taken[-1]) == rows(topic.take()), seed
                compared += 1
    topic.close()
    return compared


@pytest.mark.parametrize("number", range(size(1, 10)))
def test_on_random_histories_incremental_snapshots_equal_full_ones(number: int, tmp_path: Path) -> None:
    compared = 0
    for life in range(LIVES):
        compared += history(f"since {number} {life}", tmp_path / str(life))
        shutil.rmtree(tmp_path / str(life))
    assert compared > LIVES


def test_spark_gives_the_same_incremental_snapshot(spark: SparkSession, topic: Topic) -> None:
    from ottla.pipeline.snapshot.snapshot_job import rounds_on

    (log,) = topic.logs
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), roll=True)
    first = topic.take()
    append(log, ("b", "2"), ("c", None), ("d", "1"), roll=True)
    append(log, ("d", "2"))
    out = topic.directory / "spark"
    run = rounds_on(spark, "t", buckets=Buckets(2, 3))
    made = take_snapshot(Store(str(topic.data_dir)), "t", str(out), run, now_ms=topic.now_ms, since=topic.since(first))
    assert made.keys == 3 and rows(out) == rows(topic.take())


def test_a_frame_has_the_effective_rows(spark: SparkSession, topic: Topic) -> None:
    from ottla.pipeline import read_snapshot

    def framed(snapshot: Path) -> list[Row]:
        found = read_snapshot(spark, str(snapshot)).collect()
        return sorted((row.partition, bytes(row.key), row.offset, bytes(row.value)) for row in found)

    topic.logs.append(topic.log(1))
    log, other = topic.logs
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), roll=True)
    append(other, ("a", "of 1"), ("b", "of 1"))
    first = topic.take()
    assert framed(first) == rows(first)
    append(log, ("b", "2"), ("c", None), ("d", "1"))
    second = topic.take(since=first)
    append(log, ("d", None), ("a", "3"), ("c", "4"))
    append(other, ("b", None))
    third = topic.take(since=second)
    if FULL:
        assert framed(second) == rows(second)
    assert framed(third) == rows(third) == rows(topic.take())
    path = third / MANIFEST
    path.write_text(path.read_text().replace('"log_start_offset": 0', '"log_start_offset": 4', 1))
    assert framed(third) == rows(third) != []
    with pytest.raises(UsageError, match="expected a snapshot, found none"):
        read_snapshot(spark, str(third / "nowhere"))
