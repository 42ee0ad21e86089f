"""A copy of a data directory in a store is read like the directory; unsupported operations are refused in a line."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import pyarrow as pa
import pyarrow.dataset as ds

from ottla.pipeline.cli import main
from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.objects.object_files import ObjectFiles
from ottla.pipeline.snapshot.snapshot import take_snapshot
from ottla.pipeline.snapshot.stored_rows import StoredSnapshot
from ottla.pipeline.source.batch_reader import read_task, tasks
from ottla.pipeline.source.push_down import Narrowing
from ottla.pipeline.source.read_options import parse_options
from ottla.pipeline.source.reading import LogReader
from ottla.pipeline.source.split_reader import Wanted, read_split
from ottla.pipeline.stores.reading_files import ReadingFiles
from ottla.pipeline.stores.store import Store
from ottla.pipeline.stores.stores import opened_store
from ottla.pipeline.verify.audit_scope import scope_against, scope_alone
from ottla.pipeline.verify.verify import verify
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.pipeline.counting_store import CountingStore, OpenerOf
from support.pipeline.stored_topic import TOPIC, many_segments, stored_topic

SCHEMA = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
NAMES = ("", "/orders-0")


def rows(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = ds.dataset(path, format="parquet").to_table().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def read(path: str, **options: str) -> list[dict[str, object]]:
    wanted = parse_options({"path": path, **options})
    return [
        row
        for task in tasks(wanted, Narrowing())
        for batch in read_task(pickle.loads(pickle.dumps(task)), wanted, SCHEMA)
        for row in batch.to_pylist()
    ]


def in_store(data_dir: Path) -> tuple[CountingStore, ReadingFiles]:
    store = CountingStore()
    store.load(data_dir, "logs/copy")
    return store, ReadingFiles(OpenerOf(store))


@pytest.mark.parametrize("below", NAMES)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("max_bytes", ["1", "1000000"])
def test_a_copy_reads_like_the_directory(tmp_path: Path, below: str, isolation: str, max_bytes: str) -> None:
    data_dir = stored_topic(tmp_path)
    options = {"isolationLevel": isolation, "maxPartitionBytes": max_bytes}
    found = read(f"file://{data_dir}{below}/", **options)
    assert found == read(f"{data_dir}{below}", **options)
    assert found


def test_a_store_without_folder_listings_can_be_read(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    store, _ = in_store(data_dir)
    store.type_name = "gcs"
    files = ReadingFiles(OpenerOf(store))
    opened_copy = opened_store("s3://logs/copy", files)
    assert opened_copy.topic_partitions(TOPIC) == Store(str(data_dir)).topic_partitions(TOPIC)
    made = take_snapshot(opened_copy, TOPIC, str(tmp_path / "copy"), now_ms=1)
    assert made.keys == take_snapshot(Store(str(data_dir)), TOPIC, str(tmp_path / "own"), now_ms=1).keys
    with pytest.raises(
        UsageError, match=r"s3://logs/out: expected a path .*found an address: copy the folder there, or"
    ):
        take_snapshot(opened_copy, TOPIC, "s3://logs/out", now_ms=1)
    store.load(tmp_path / "copy", "logs/snapshot")
    there, here = (
        StoredSnapshot("s3://logs/snapshot", ObjectFiles(OpenerOf(store))),
        StoredSnapshot(str(tmp_path / "copy")),
    )
    assert there.manifest == here.manifest is not None
    assert [*there.batches()] == [*here.batches()]
    with pytest.raises(UsageError, match="is not a directory"):
        opened_store("s3://logs/nowhere", files)


def test_a_copy_may_lack_indexes_and_checkpoints(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    expected = read(str(data_dir), isolationLevel="read_committed")
    for path in data_dir.rglob("*"):
        if path.is_file() and path.suffix != paths.LOG:
            path.unlink()
    assert read(f"file://{data_dir}", isolationLevel="read_committed") == expected


def test_a_copys_snapshot_equals_the_directorys(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    _, files = in_store(data_dir)
    take_snapshot(opened_store("s3://logs/copy", files), TOPIC, str(tmp_path / "copy"), now_ms=1)
    take_snapshot(Store(str(data_dir)), TOPIC, str(tmp_path / "own"), now_ms=1)
    assert rows(tmp_path / "copy") == rows(tmp_path / "own")


def test_a_copy_is_verified_by_itself_and_against_a_directory(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    _, files = in_store(data_dir)
    copy, own, tp = Store("s3://logs/copy", files), Store(str(data_dir)), TopicPartition(TOPIC, 0)
    for scopes in ([scope_alone(copy, tp, 1)], [scope_against(copy, own, tp, 1)], [scope_against(own, copy, tp, 1)]):
        report = verify(scopes, files)
        assert (report.passed, report.partitions[0].segments) == (True, 3)


def test_damage_in_a_copy_is_located(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    store, files = in_store(data_dir)
    path = "logs/copy/orders-0/00000000000000000000.log"
    data = bytearray(store.objects[path][0])
    data[70] ^= 1
    store.put(path, bytes(data))
    report = verify([scope_alone(Store("s3://logs/copy", files), TopicPartition(TOPIC, 0), 1)], files)
    assert report.first is not None
    assert report.first[1].file == f"s3://{path}"


def test_a_log_of_many_segments_is_planned_by_its_listing(tmp_path: Path) -> None:
    store, files = in_store(many_segments(tmp_path, 300))
    with LogReader(Store("s3://logs/copy", files), committed=True).opened(TopicPartition(TOPIC, 0)) as log:
        found = list(log.tasks(log.start_offset, log.end_offset, max_bytes=1 << 20, since_ms=None))
    assert len(found) == 300
    assert sum(store.asked.values()) < 30
    assert store.bytes_read < 100_000


def test_an_object_replaced_since_the_plan_ends_the_read(tmp_path: Path) -> None:
    store, files = in_store(stored_topic(tmp_path))
    with LogReader(Store("s3://logs/copy", files), committed=False).opened(TopicPartition(TOPIC, 0)) as log:
        found = list(log.tasks(log.start_offset, log.end_offset, max_bytes=1 << 20, since_ms=None))
    path = found[0].split.log_path.partition("://")[2]
    store.put(path, store.objects[path][0])
    with pytest.raises(SourceChangedError, match="was replaced or deleted") as refused:
        list(read_split(found[0].split, Wanted(SCHEMA)))
    assert refused.value.exit_code == 4


def test_an_object_replaced_during_a_snapshot_ends_it(tmp_path: Path) -> None:
    store, files = in_store(stored_topic(tmp_path))
    path = "logs/copy/orders-0/00000000000000000000.log"
    reads = []

    def before(kind: str, of: str) -> None:
        if (kind, of) == ("read", path):
            reads.append(1)
            if len(reads) == 1:
                store.put(path, store.objects[path][0])

    store.before = before
    with pytest.raises(SourceChangedError):
        take_snapshot(opened_store("s3://logs/copy", files), TOPIC, str(tmp_path / "out"), now_ms=1)
    assert not (tmp_path / "out").exists()


def test_a_copy_that_ends_before_its_recovery_point_is_torn(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    checkpoint = OffsetCheckpoint(OsFiles(), str(data_dir / paths.RECOVERY_POINT_CHECKPOINT))
    ends = checkpoint.read()
    checkpoint.write({tp: end + (1 if tp.partition == 0 else 0) for tp, end in ends.items()})
    with pytest.raises(SourceChangedError, match="it was copied while its server ran, or is damaged") as refused:
        read(f"file://{data_dir}")
    assert refused.value.exit_code == 4
    assert read(f"file://{data_dir}/orders-1")
    (data_dir / paths.RECOVERY_POINT_CHECKPOINT).unlink()
    assert read(f"file://{data_dir}")


def test_a_torn_end_is_not_read(tmp_path: Path) -> None:
    data_dir = stored_topic(tmp_path)
    (data_dir / paths.RECOVERY_POINT_CHECKPOINT).unlink()
    whole = read(str(data_dir))
    last = max((data_dir / "orders-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    assert read(f"file://{data_dir}") == read(str(data_dir))
    assert len(read(f"file://{data_dir}")) < len(whole)


@pytest.mark.parametrize("command", [["plan"], ["compact"], ["compact", "--install"], ["compact", "--dry-run"]])
def test_commands_that_need_links_refuse_a_store_at_once(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *more = command
    assert main([name, "s3://nobody-asks/x", "--topic", TOPIC, "--master", "none", *more]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"s3://nobody-asks/x: {name} needs hard links and renames" in line


def test_one_address_among_several_directories_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = f"{stored_topic(tmp_path)},s3://nobody-asks/x"
    assert main(["compact", named, "--topic", TOPIC, "--master", "none"]) == 1
    assert "compact needs hard links and renames" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["install", "status"])
def test_an_address_has_no_staging_directory(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "s3://nobody-asks/x", "--master", "none"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs hard links and renames" in line or "need" in line


def test_the_commands_read_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_dir = stored_topic(tmp_path)
    address = f"file://{data_dir}"
    assert main(["read", str(data_dir), "--topic", TOPIC]) == 0
    expected = capsys.readouterr().out
    assert main(["read", address, "--topic", TOPIC]) == 0
    assert capsys.readouterr().out == expected
    before = shutil.copytree(data_dir, tmp_path / "before")
    assert main(["verify", address, "--topic", TOPIC, "--against", f"file://{before}", "--master", "none"]) == 0
    assert f"against file://{before}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("file:///nowhere/at-all", "file:///nowhere/at-all is not a directory"),
        ("nope://x/y", "nope://: expected one of s3://"),
    ],
)
def test_an_address_without_data_is_reported_in_one_line(
    address: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", address, "--topic", TOPIC, "--master", "none"]) == 1
    assert said in capsys.readouterr().err


def test_an_unknown_option_of_a_store_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "file:///x", "--topic", TOPIC, "--fs-option", "s3.regoin=x"]) == 1
    assert "unknown option s3.regoin" in capsys.readouterr().err
    with pytest.raises(UsageError, match="expected no secret"):
        parse_options({"path": "s3://b/x", "fs.s3.secret_key": "hush"})
