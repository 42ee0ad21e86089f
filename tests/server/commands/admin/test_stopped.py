"""Compaction of a data directory without a broker: the same as with one, and refused if a broker uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.commands.admin import stopped
from ottla.server.commands.admin.stopped import compact_stopped
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.disk.os_files import OsFile, OsFiles
from support.commands.command_runs import run_command
from support.sizes import size

AT_REST = {"log.cleaner.backoff.ms": str(10**12)}


def fill(data_dir: Path, *, crash: bool = False, **configs: Any) -> None:
    """Write a hundred records of ten keys to the active segment of a directory that no broker uses any more."""
    with ottla.Broker(data_dir, overrides=AT_REST) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact", **configs})
        broker.create_topic("plain", configs={"cleanup.policy": "delete"})
        for number in range(100):
            broker.produce("orders", str(number), key=f"k{number % 10}")
        if crash:
            broker.crash()


def offsets(data_dir: Path) -> list[int]:
    with ottla.Broker(data_dir, overrides=AT_REST) as broker:
        return [record.offset for record in broker.records("orders")]


def test_force_cleans_everything_and_a_broker_starts_on_the_result(tmp_path: Path) -> None:
    fill(tmp_path)
    (done,) = compact_stopped(str(tmp_path), "orders", force=True).partitions
    assert (done.passes, done.has_rolled, done.first_dirty_offset) == (1, True, 100)
    assert done.records_removed.superseded == 90
    (again,) = compact_stopped(str(tmp_path), "orders", force=True).partitions
    assert (again.passes, again.has_rolled, again.waits_for) == (0, False, "all_clean")
    assert offsets(tmp_path) == list(range(90, 100))


def test_the_command_compacts_or_gives_the_obstacle(tmp_path: Path) -> None:
    fill(tmp_path)
    done = run_command("compact", "orders", "--data", str(tmp_path), "--force", "--json")
    assert (done.code, json.loads(done.out)["partitions"][0]["records_removed"]["superseded"]) == (0, 90)
    done = run_command("compact", "missing", "--data", str(tmp_path))
    assert (done.code, done.out) == (1, "") and "missing" in done.err


def test_the_active_segment_is_cleaned_only_if_rolled_as_in_kafka(tmp_path: Path) -> None:
    fill(tmp_path)
    (done,) = compact_stopped(str(tmp_path), "orders").partitions
    assert (done.passes, done.waits_for) == (0, "active_segment")
    (done,) = compact_stopped(str(tmp_path), "orders", [0], roll=True).partitions
    assert (done.passes, done.first_dirty_offset) == (1, 100)


def test_compaction_leaves_the_same_bytes_as_a_broker(tmp_path: Path) -> None:
    fill(tmp_path / "by broker")
    shutil.copytree(tmp_path / "by broker", tmp_path / "without")
    with ottla.Broker(tmp_path / "by broker", overrides=AT_REST) as broker:
        broker.compact("orders", force=True)
    compact_stopped(str(tmp_path / "without"), "orders", force=True)
    logs = [
        {path.name: path.read_bytes() for path in (tmp_path / each / "orders-0").glob("*.log")}
        for each in ("by broker", "without")
    ]
    assert logs[0] == logs[1]
    assert len(logs[0]) == 2


def test_a_directory_in_use_by_a_broker_is_refused_and_unchanged(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact"})
        with pytest.raises(ControlError, match="run it on that broker instead: ottla compact orders") as refused:
            compact_stopped(str(tmp_path), "orders", force=True)
    assert refused.value.kind is Kind.CONFLICT


@pytest.mark.parametrize(
    ("topic", "kind", "says"),
    [
        ("order", Kind.NOT_FOUND, "topic 'order' not found; did you mean 'orders'"),
        ("plain", Kind.CONFLICT, "plain-0 is not compacted: cleanup.policy is delete"),
    ],
)
def test_a_refused_compaction_leaves_a_directory_that_starts(topic: str, kind: Kind, says: str, tmp_path: Path) -> None:
    fill(tmp_path)
    with pytest.raises(ControlError) as refused:
        compact_stopped(str(tmp_path), topic, force=True)
    assert (refused.value.kind, says in str(refused.value)) == (kind, True), str(refused.value)
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert len(offsets(tmp_path)) == 100


def test_a_foreign_directory_is_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="directory not found"):
        compact_stopped(str(tmp_path / "nowhere"), "orders")
    with pytest.raises(ControlError, match=r"is not a data directory: meta\.properties not found"):
        compact_stopped(str(tmp_path), "orders")
    assert list(tmp_path.iterdir()) == []


def test_tombstones_are_removed_at_their_horizon(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, overrides=AT_REST) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact", "delete.retention.ms": 0})
        broker.produce("orders", None, key="gone")
        broker.produce("orders", "1", key="stays")
        broker.compact("orders", force=True)
    (done,) = compact_stopped(str(tmp_path), "orders", force=True).partitions
    assert done.records_removed.tombstones == 1
    (done,) = compact_stopped(str(tmp_path), "orders", force=True).partitions
    assert done.passes == 0


def test_a_damaged_segment_is_reported_in_one_line(tmp_path: Path) -> None:
    fill(tmp_path)
    path = tmp_path / "orders-0" / f"{0:020}.log"
    damaged = bytearray(path.read_bytes())
    damaged[61:64] = b"\xff\xff\xff"  # a record's length, which a start after a clean stop does not read
    path.write_bytes(damaged)
    with pytest.raises(ControlError, match=r"^orders-0 cannot be cleaned: ") as refused:
        compact_stopped(str(tmp_path), "orders", force=True)
    assert refused.value.kind is Kind.FAILED
    assert "\n" not in str(refused.value)
    assert (tmp_path / ".kafka_cleanshutdown").exists()


class InterruptedFiles(OsFiles):
    """A disk on which Ctrl-C interrupts one of the operations that change names."""

    def __init__(self, at: int) -> None:
        self._left = at

    def _operation(self) -> None:
        self._left -= 1
        if self._left == -1:
            raise KeyboardInterrupt

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create:
            self._operation()
        return super().open(path, create=create, truncate=truncate)

    def rename(self, old: str, new: str) -> None:
        self._operation()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._operation()
        super().remove(path)

    def sync_dir(self, path: str) -> None:
        self._operation()
        super().sync_dir(path)


def test_ctrl_c_at_any_operation_loses_no_record_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "filled")
    with ottla.Broker(tmp_path / "filled", overrides=AT_REST) as broker:
        for number in range(100, 103):
            broker.roll("orders")
            broker.produce("orders", str(number), key=f"k{number % 10}")
    at, is_over = 0, False
    while not is_over:
        data_dir = tmp_path / str(at)
        shutil.copytree(tmp_path / "filled", data_dir)
        with monkeypatch.context() as patch:
            patch.setattr(stopped, "OsFiles", lambda at=at: InterruptedFiles(at))
            try:
                compact_stopped(str(data_dir), "orders", force=True)
                is_over = True
            except KeyboardInterrupt:
                pass
        found = offsets(data_dir)
        assert found == sorted(set(found)) and set(range(93, 103)) <= set(found), at
        compact_stopped(str(data_dir), "orders", force=True)
        assert offsets(data_dir) == list(range(93, 103)), at
        shutil.rmtree(data_dir)
        at += size(14, 1)
    assert at > 20
