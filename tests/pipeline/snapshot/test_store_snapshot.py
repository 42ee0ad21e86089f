"""Snapshots in a store: the old one exists until the new one is complete, whatever fails, and failed ones leave nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow.dataset as ds

from ottla.pipeline.cli import main
from ottla.pipeline.errors import ExitCode, PipelineError, SourceChangedError, UsageError
from ottla.pipeline.objects import failures
from ottla.pipeline.objects.object_files import ObjectFiles
from ottla.pipeline.snapshot.layers import SnapshotResult
from ottla.pipeline.snapshot.places import since_of
from ottla.pipeline.snapshot.snapshot import take_snapshot
from ottla.pipeline.snapshot.snapshot_folder import LEFT_MS
from ottla.pipeline.snapshot.store_snapshot import find
from ottla.pipeline.snapshot.stored_rows import StoredSnapshot
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.pipeline.stores.stores import opened_store
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.logs.make_log import append, make_log
from support.pipeline.counting_store import CountingStore, OpenerOf
from support.pipeline.stored_topic import TOPIC, stored_topic
from support.sizes import size

OUT = "s3://lake/out"
NOW_MS = 10**12


class Lake:
    """A topic on disk, and a store to write to."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = stored_topic(directory, delete_retention_ms="86400000")
        self.store = CountingStore()
        self.files = ReadingFiles(OpenerOf(self.store))
        self.objects: ObjectFiles = self.files.objects

    def snapshot(self, now_ms: int = NOW_MS, *, since: bool = False, **options: Any) -> SnapshotResult:
        opened = opened_store(str(self.data_dir), self.files)
        earlier = since_of(opened, OUT, TOPIC, None, now_ms=lambda: now_ms) if since else None
        return take_snapshot(opened, TOPIC, OUT, now_ms=now_ms, since=earlier, **options)

    def rows(self) -> list[tuple[int, int, bytes, bytes]]:
        found = [row for batch in StoredSnapshot(OUT, self.objects).batches() for row in batch.to_pylist()]
        return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in found)

    def expected(self, directory: Path) -> list[tuple[int, int, bytes, bytes]]:
        take_snapshot(opened_store(str(self.data_dir)), TOPIC, str(directory), now_ms=NOW_MS)
        rows = ds.dataset(directory, format="parquet").to_table().to_pylist()
        return sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)

    def names(self) -> list[str]:
        return sorted(self.store.objects)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "PAUSES_S", (0.0, 0.0))


def changed(lake: Lake) -> None:
    tp = TopicPartition(TOPIC, 1)
    log = make_log(OsFiles(), tp=tp, data_dir=str(lake.data_dir), segment_bytes=1 << 20, clean_shutdown=True)
    append(log, ("e", None), ("new", "1"))
    log.close(NOW_MS)


def test_a_store_snapshot_has_the_rows_of_a_local_one(lake: Lake, tmp_path: Path) -> None:
    made = lake.snapshot()
    assert lake.rows() == lake.expected(tmp_path / "own")
    assert (made.path, made.keys) == (OUT, len(lake.rows()))
    (manifest,) = [name for name in lake.names() if "_manifest" in name]
    assert manifest.startswith("lake/out/_manifest.00000001.")
    found = find(lake.objects, OUT)
    assert found is not None
    assert sorted(f"s3://{name}" for name in lake.names() if name != manifest) == sorted(found.layers[0])


def test_a_new_snapshot_replaces_the_old_one(lake: Lake) -> None:
    lake.snapshot()
    old = set(lake.names())
    with pytest.raises(UsageError, match="expected no snapshot there, found one"):
        lake.snapshot()
    assert set(lake.names()) == old
    changed(lake)
    lake.snapshot(NOW_MS + 1, overwrite=True)
    assert (1, 4, b"new", b"1") in lake.rows()
    assert not old & set(lake.names())


def test_an_incremental_snapshot_names_the_files_of_the_earlier_one(lake: Lake, tmp_path: Path) -> None:
    lake.snapshot()
    old = {name for name in lake.names() if "_parts" in name}
    changed(lake)
    lake.store.forget()
    made = lake.snapshot(NOW_MS + 1, since=True, overwrite=True)
    assert (made.since, made.keys) == (OUT, 2)
    assert old <= set(lake.names())
    assert len([name for name in lake.names() if "_manifest" in name]) == 1
    assert lake.rows() == lake.expected(tmp_path / "own")
    lake.snapshot(NOW_MS + 2, overwrite=True)
    assert not old & set(lake.names())
    assert lake.rows() == lake.expected(tmp_path / "again")


def test_a_permanent_failure_of_any_request_leaves_a_complete_snapshot(lake: Lake) -> None:
    lake.snapshot()
    old, before_all = lake.rows(), dict(lake.store.objects)
    changed(lake)
    writes = ("write", "written", "list", "info", "delete", "open", "read")
    outcomes = set()
    for number in range(0, 200, size(3, 1)):
        left = [number]

        def before(kind: str, _path: str, left: list[int] = left) -> None:
            if kind in writes:
                left[0] -= 1
                if left[0] < 0:
                    raise OSError("AWS Error SLOW_DOWN")

        lake.store.before = before
        is_done = True
        try:
            lake.snapshot(NOW_MS + 1 + number, overwrite=True)
        except PipelineError as error:
            assert error.exit_code == ExitCode.FAILED
            is_done = False
        lake.store.before = lambda kind, path: None
        rows = lake.rows()
        is_new = (1, 4, b"new", b"1") in rows
        assert is_new or rows == old
        assert is_new or not is_done
        outcomes.add((is_done, is_new))
        if is_new:  # also if the answer was lost
            lake.store.objects = dict(before_all)
        if is_done:
            break
    assert outcomes == {(False, False), (False, True), (True, True)}


def test_a_partly_written_manifest_is_ignored(lake: Lake) -> None:
    lake.snapshot()
    rows = lake.rows()
    (name,) = [name for name in lake.names() if "_manifest" in name]
    for torn in (b"", b"{", lake.store.objects[name][0][:-5]):
        lake.store.put("lake/out/_manifest.00000002.1000000000009-ab.json", torn)
        assert lake.rows() == rows


def test_the_loser_of_two_concurrent_snapshots_reports_it(lake: Lake) -> None:
    lake.snapshot()
    changed(lake)
    began: list[int] = []

    def before(kind: str, path: str) -> None:
        if kind == "written" and "_parts" in path and not began:
            began.append(1)
            lake.snapshot(NOW_MS + 2, overwrite=True)

    lake.store.before = before
    with pytest.raises(SourceChangedError, match="another snapshot was written there since"):
        lake.snapshot(NOW_MS + 1, overwrite=True)
    assert (1, 4, b"new", b"1") in lake.rows()
    found = find(lake.objects, OUT)
    assert found is not None
    assert {f"s3://{name}" for name in lake.names() if "_parts" in name} == {
        each for layer in found.layers for each in layer
    }


def test_a_job_that_finds_a_foreign_manifest_withdraws(lake: Lake) -> None:
    lake.snapshot()
    rows, old = lake.rows(), lake.names()
    (name,) = [name for name in old if "_manifest" in name]
    other = "lake/out/_manifest.00000002.9000000000000-ff.json"

    def before(kind: str, path: str) -> None:
        if kind == "written" and "_manifest.00000002" in path:
            lake.store.put(other, lake.store.objects[name][0])

    lake.store.before = before
    with pytest.raises(SourceChangedError):
        lake.snapshot(NOW_MS + 1, overwrite=True)
    assert lake.rows() == rows
    assert set(lake.names()) == {*old, other}


def test_leftovers_of_dead_jobs_are_removed_after_a_day(lake: Lake) -> None:
    young, old = NOW_MS - LEFT_MS + 10, NOW_MS - LEFT_MS - 10
    for began_ms in (young, old):
        lake.store.put(f"lake/out/_parts/{began_ms:013}-aa/part-00000.x.parquet", b"x")
    with pytest.raises(UsageError, match="expected a snapshot, found none"):
        lake.rows()
    lake.snapshot()
    left = [name for name in lake.names() if name.endswith("-aa/part-00000.x.parquet")]
    assert left == [f"lake/out/_parts/{young:013}-aa/part-00000.x.parquet"]


def test_a_copy_of_a_folder_is_read_and_never_replaced(lake: Lake, tmp_path: Path) -> None:
    expected = lake.expected(tmp_path / "own")
    lake.store.load(tmp_path / "own", "lake/out")
    assert lake.rows() == expected
    with pytest.raises(UsageError, match="found a copy of one"):
        lake.snapshot(overwrite=True)
    lake.store.objects.clear()
    lake.store.put("lake/out/notes.txt", b"mine")
    with pytest.raises(UsageError, match="expected a snapshot, found something else"):
        lake.snapshot(overwrite=True)


def test_a_topic_without_rows_has_a_file_without_rows(lake: Lake) -> None:
    for path in lake.data_dir.glob("orders-*/*.log"):
        path.write_bytes(b"")
    for name in ("recovery-point-offset-checkpoint",):
        (lake.data_dir / name).unlink()
    assert lake.snapshot().keys == 0
    assert lake.rows() == []


@pytest.mark.parametrize(
    ("out", "since"),
    [("s3://a/new", "s3://a/old"), ("s3://a/new", "/old"), ("/new", "s3://a/old"), ("s3://a/x", "s3://b/x")],
)
def test_a_base_in_another_store_is_refused_in_one_line(
    out: str, since: str, capsys: pytest.CaptureFixture[str], lake: Lake
) -> None:
    command = ["snapshot", str(lake.data_dir), "--topic", TOPIC, "--out", out, "--since", since, "--master", "none"]
    assert main(command) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--since {since}: expected {out} itself" in line


def test_the_command_writes_to_an_address(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lake").mkdir()
    out = f"file://{tmp_path}/lake/out"
    command = ["snapshot", str(lake.data_dir), "--topic", TOPIC, "--out", out, "--master", "none"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{out}: 6 keys of 2 partitions\n"
    assert main([*command, "--since", out, "--overwrite"]) == 0
    assert "0 keys of 2 partitions have changed since" in capsys.readouterr().out
    assert sum(batch.num_rows for batch in StoredSnapshot(out).batches()) == 6
