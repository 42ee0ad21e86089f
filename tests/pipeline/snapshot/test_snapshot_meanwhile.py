"""Snapshots of a log that a server uses: whatever the server does at any moment, no key is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.dataset as ds

from ottla.pipeline.errors import CorruptSourceError, SourceChangedError
from ottla.pipeline.records.fine_buckets import Buckets
from ottla.pipeline.snapshot import snapshot, snapshot_rounds
from ottla.pipeline.snapshot.targets import SnapshotTarget
from ottla.pipeline.stores.store import Store
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint, write_partition_metadata
from ottla.storage.disk.os_files import OsFiles
from support.logs.make_log import (
    TP,
    Producer,
    append,
    clean,
    contents,
    delete_old_segments,
    latest_values,
    make_log,
    remove_deleted,
)
from support.sizes import size, some

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT_MS = 1_000
"""The delete.retention.ms: the second pass after a tombstone removes it."""


class Server:
    """A server that uses the directory, and every state of the log's keys since the snapshot began."""

    def __init__(self, data_dir: Path) -> None:
        self.log = make_log(
            OsFiles(),
            data_dir=str(data_dir),
            segment_bytes=1 << 20,
            index_interval_bytes=0,
            file_delete_delay_ms=0,
            delete_retention_ms=KEPT_MS,
        )
        (data_dir / paths.CATALOG_FILE).write_text(
            '{"version": 1, "cluster_id": "x", "next_producer_id": 0, "features": {}, "broker_configs": {}, "topics": {}}'
        )
        self.now_ms = 2_000
        append(self.log, ("k", "1"), ("a", "1"))
        append(self.log, ("b", "1"), ("c", "1"), roll=True)
        append(self.log, ("d", "1"))
        aborting = Producer(self.log, 7, transactional=True)
        aborting.write("x", "k")
        aborting.abort()
        append(self.log, ("b", "2"), ("e", "1"), roll=True)
        append(self.log, ("c", None), ("f", "1"))
        self.states = [self.keys()]
        self.rounds = 0

    def keys(self) -> dict[bytes | None, bytes | None]:
        """Return the latest value of each key for a reader: aborted values (`x`, and that of `k`) do not count."""
        aborted = (5, 6)
        found: dict[bytes | None, bytes | None] = {}
        for offset, key, value in contents(self.log):
            if offset not in aborted:
                found[key] = value
        return {key: value for key, value in found.items() if value is not None}

    def append(self, *pairs: tuple[str, str | None]) -> None:
        append(self.log, *pairs)
        self.states.append(self.keys())

    def clean(self) -> None:
        """Remove superseded records from the disk, including old files."""
        self.log.roll(self.now_ms)
        self.now_ms += 2 * KEPT_MS
        clean(self.log, now_ms=self.now_ms)
        remove_deleted(self.log, 10**15)
        assert self.keys() == self.states[-1]


def supersede(server: Server) -> None:
    server.rounds += 1
    server.append(("k", f"new {server.rounds}"), ("b", f"new {server.rounds}"), (f"n{server.rounds}", "1"))
    server.clean()


def delete(server: Server) -> None:
    server.append(("k", None), ("d", None))
    server.clean()


def delete_for_good(server: Server) -> None:
    """Do three passes: the last removes the tombstones."""
    delete(server)
    server.append(("other", "1"))
    server.clean()
    server.append(("other", "2"))
    server.clean()


def clean_only(server: Server) -> None:
    server.clean()


def append_only(server: Server) -> None:
    server.append(("k", "appended"), ("n", "1"))


WORK: dict[str, Callable[[Server], None]] = {
    each.__name__: each for each in (supersede, delete, delete_for_good, clean_only, append_only)
}


class Moments:
    """The calls in which a snapshot reads the log; at some of them the server does something first."""

    def __init__(self, server: Server, work: dict[int, Callable[[Server], None]]) -> None:
        self.count = 0
        self._server = server
        self._work = work

    def pass_by(self) -> None:
        if (work := self._work.get(self.count)) is not None:
            work(self._server)
        self.count += 1


def take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: dict[int, Callable[[Server], None]]
) -> tuple[Server, list[dict[str, Any]], int]:
    """Take a snapshot with work at some moments; return the server, the rows, and the number of moments."""
    server = Server(tmp_path / "data")
    moments = Moments(server, work)
    real_rows, real_write, real_round = snapshot._rows_of, snapshot.write_part, snapshot_rounds._round
    with monkeypatch.context() as patched:

        def rows_of(*arguments: Any) -> Iterator[Any]:
            moments.pass_by()
            yield from real_rows(*arguments)

        def write_part(*arguments: Any, **named: Any) -> Any:
            moments.pass_by()
            return real_write(*arguments, **named)

        def planned(*arguments: Any, **options: Any) -> Any:
            found = real_round(*arguments, **options)
            moments.pass_by()
            return found

        patched.setattr(snapshot, "_rows_of", rows_of)
        patched.setattr(snapshot, "write_part", write_part)
        patched.setattr(snapshot_rounds, "_round", planned)
        patched.setattr(snapshot_rounds, "MAX_PART_BYTES", 100)
        out = tmp_path / "out"
        made = snapshot.take_snapshot(Store(str(tmp_path / "data")), TP.topic, str(out), now_ms=1_000)
    rows: list[dict[str, Any]] = ds.dataset(out, format="parquet").to_table().to_pylist()
    assert made.keys == len(rows)
    server.log.release_files()
    return server, rows, moments.count


def check(server: Server, rows: list[dict[str, Any]]) -> None:
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows), "a key has two rows"
    for key, value in found.items():
        assert any(state.get(key) == value for state in server.states), f"{key!r} never was {value!r} meanwhile"
    for key in server.states[0]:
        if all(key in state for state in server.states):
            assert key in found, f"{key!r} had a value all the time"


def test_an_undisturbed_snapshot_has_the_state_of_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, rows, count = take(tmp_path, monkeypatch, {})
    assert {row["key"]: row["value"] for row in rows} == server.states[0]
    assert count > 8


@pytest.mark.parametrize("name", WORK)
def test_a_server_may_do_anything_at_any_moment(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, count = take(tmp_path / "undisturbed", monkeypatch, {})
    for moment in range(0, count, size(5, 1)):
        server, rows, _ = take(tmp_path / str(moment), monkeypatch, {moment: WORK[name]})
        check(server, rows)
        if name == "append_only":
            assert {row["key"]: row["value"] for row in rows} == server.states[0]


def test_a_server_may_change_the_log_at_several_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first event causes further rounds, and the second one may come during those."""
    for number, (first, second) in enumerate(some(product((0, 3, 7), (1, 6, 11, 17)), 3)):
        work: dict[int, Callable[[Server], None]] = {first: supersede, first + second: supersede}
        server, rows, _ = take(tmp_path / str(number), monkeypatch, work)
        check(server, rows)
        work = {first: supersede, first + second: delete_for_good}
        server, rows, _ = take(tmp_path / f"{number}b", monkeypatch, work)
        check(server, rows)


def test_a_cleaner_faster_than_each_round_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_rounds, "ROUNDS_MAX", 2)
    with pytest.raises(SourceChangedError, match="were replaced in each of 2 rounds: its cleaner is faster"):
        take(tmp_path, monkeypatch, dict.fromkeys(range(10_000), supersede))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_records_that_retention_deletes_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def retain(server: Server) -> None:
        server.log.roll(server.now_ms)
        server.log.advance_log_start(server.log.log_end_offset)
        delete_old_segments(server.log, server.now_ms, 0)
        remove_deleted(server.log, 10**15)

    with pytest.raises(SourceChangedError, match="were deleted while they were read"):
        take(tmp_path, monkeypatch, {2: retain})


def test_a_missing_chosen_record_without_a_cleaner_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other program removes records; if one is missing nevertheless, the user must be informed."""
    server = Server(tmp_path / "data")
    real_chosen = snapshot.chosen_of

    def losing(*arguments: Any) -> Iterator[Any]:
        for batch in real_chosen(*arguments):
            yield batch.slice(1)

    monkeypatch.setattr(snapshot, "chosen_of", losing)
    with pytest.raises(
        CorruptSourceError, match=r"\.log, byte 0, offset 0: expected the 2 records .*, found 1 of them"
    ):
        monkeypatch.setattr(snapshot_rounds, "MAX_PART_BYTES", 100)
        snapshot.take_snapshot(Store(str(tmp_path / "data")), TP.topic, str(tmp_path / "out"), now_ms=1_000)
    server.log.release_files()
    assert not (tmp_path / "out").exists()


def test_a_topic_recreated_between_rounds_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recreate(server: Server) -> None:
        supersede(server)
        write_partition_metadata(OsFiles(), server.log.directory, bytes(range(16)))

    with pytest.raises(SourceChangedError, match=r"was recreated|was deleted and created again"):
        take(tmp_path, monkeypatch, {3: recreate})


def test_a_high_watermark_below_the_cleaners_progress_is_awaited(tmp_path: Path) -> None:
    """Apache Kafka writes its high watermarks every few seconds, and cleans above the last written one."""
    server = Server(tmp_path / "data")
    (tmp_path / "data" / paths.CATALOG_FILE).unlink()
    watermark = OffsetCheckpoint(OsFiles(), str(tmp_path / "data" / paths.REPLICATION_CHECKPOINT))
    watermark.write({TP: server.log.log_end_offset})
    pauses = []

    def pause() -> None:
        pauses.append(1)
        if len(pauses) == 2:
            watermark.write({TP: server.log.log_end_offset})

    out = tmp_path / "out"
    out.mkdir()
    store = Store(str(tmp_path / "data"))
    work = [supersede]

    def run(of: snapshot_rounds.Round, target: SnapshotTarget) -> Iterator[snapshot_rounds.WrittenPart]:
        while work:
            work.pop()(server)
        offsets = dict(snapshot.chosen(snapshot.every_key(of)))
        for part, found in offsets.items():
            yield snapshot.write_part(of.tasks[part - of.first_part], part, found, target, attempt="x")

    snapshot_rounds.run_rounds(store, TP.topic, SnapshotTarget(str(out)), run, pause=pause)
    rows = ds.dataset(out, format="parquet").to_table().to_pylist()
    check(server, rows)
    assert len(pauses) == 2
    assert latest_values(server.log)[b"k"] == b"new 1" == next(row["value"] for row in rows if row["key"] == b"k")


def test_a_late_attempt_changes_nothing(tmp_path: Path) -> None:
    """Spark abandons attempts (speculative ones, those of executors that it lost), which continue to run."""
    server = Server(tmp_path / "data")
    out = tmp_path / "out"
    out.mkdir()
    work = [supersede]
    late: list[Callable[[], object]] = []

    def run(of: snapshot_rounds.Round, target: SnapshotTarget) -> list[snapshot_rounds.WrittenPart]:
        offsets = dict(snapshot.chosen(snapshot.every_key(of)))
        for attempt in late:
            attempt()
        calls = [
            partial(snapshot.write_part, of.tasks[part - of.first_part], part, found, target)
            for part, found in offsets.items()
        ]
        done = [call(attempt="first") for call in calls]
        late.extend(partial(call, attempt="late") for call in calls)
        while work:
            work.pop()(server)
        return done

    keys, *_ = snapshot_rounds.run_rounds(Store(str(tmp_path / "data")), TP.topic, SnapshotTarget(str(out)), run)
    for attempt in late:
        attempt()
    rows = ds.dataset(out, format="parquet").to_table().to_pylist()
    assert len(rows) == keys
    check(server, rows)


def test_a_marker_above_the_high_watermark_passed_by_the_cleaner_is_awaited(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    producer = Producer(server.log, 8, transactional=True)
    producer.write(("k", "2"))
    server.log.roll(0)
    append(server.log, ("z", "1"))
    (tmp_path / "data" / paths.CATALOG_FILE).unlink()
    watermark = OffsetCheckpoint(OsFiles(), str(tmp_path / "data" / paths.REPLICATION_CHECKPOINT))
    watermark.write({TP: server.log.log_end_offset})
    producer.commit()
    server.states = [server.keys()]
    clean(server.log, now_ms=0)  # the older value of `k` was removed before the snapshot begins
    remove_deleted(server.log, 10**15)
    pauses = []

    def pause() -> None:
        pauses.append(1)
        watermark.write({TP: server.log.log_end_offset})

    out = tmp_path / "out"
    out.mkdir()

    def run(of: snapshot_rounds.Round, target: SnapshotTarget) -> Iterator[snapshot_rounds.WrittenPart]:
        offsets = dict(snapshot.chosen(snapshot.every_key(of)))
        for part, found in offsets.items():
            yield snapshot.write_part(of.tasks[part - of.first_part], part, found, target, attempt="x")

    snapshot_rounds.run_rounds(Store(str(tmp_path / "data")), TP.topic, SnapshotTarget(str(out)), run, pause=pause)
    check(server, ds.dataset(out, format="parquet").to_table().to_pylist())
    assert pauses
    server.log.release_files()


def test_spark_does_the_same_in_rounds(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.pipeline.snapshot.snapshot_job import rounds_on

    server = Server(tmp_path / "data")
    real_round = snapshot_rounds._round
    work = [supersede]

    def planned(*arguments: Any, **options: Any) -> Any:
        found = real_round(*arguments, **options)
        while work:
            work.pop()(server)
        return found

    monkeypatch.setattr(snapshot_rounds, "_round", planned)
    run = rounds_on(spark, TP.topic, buckets=Buckets(2, 3))
    made = snapshot.take_snapshot(Store(str(tmp_path / "data")), TP.topic, str(tmp_path / "out"), run, now_ms=1_000)
    rows = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert made.keys == len(rows)
    check(server, rows)
    assert {row["key"] for row in rows} >= {b"a", b"k", b"b", b"d", b"e", b"f"}
    server.log.release_files()
