"""Compaction including the active segment, of a directory that no server uses."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

import ottla
from ottla.pipeline import jobs
from ottla.pipeline.errors import StoreLockedError, UsageError
from ottla.pipeline.install.install import roll
from ottla.pipeline.stores.store import Store
from ottla.storage.disk import paths
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from support.logs.make_log import SECRET

NEVER = {"log.cleaner.backoff.ms": str(10**12)}
TP = TopicPartition("orders", 0)


def stopped(directory: Path) -> Path:
    """Return the directory of a stopped broker with fifty records of five keys, all in the active segment."""
    with ottla.Broker(directory, overrides=NEVER) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact"})
        for number in range(50):
            broker.produce("orders", str(number), key=f"k{number % 5}")
    return directory


def compact(directory: Path, *, includes_active: bool = True, installs: bool = False) -> list[str]:
    """State of the partitions after a roll."""
    found = jobs.compact(
        None,
        str(directory),
        topic="orders",
        installs=installs,
        includes_active=includes_active,
        now_ms=lambda: 2_000_000_000_000,
        secret=lambda: SECRET,
    )
    return [each.outcome for each in found]


def offsets(directory: Path) -> list[int]:
    # A cleaner looks once when it starts, whatever its backoff is.
    with ottla.Broker(directory, overrides={"log.cleaner.enable": "false"}) as broker:
        return [record.offset for record in broker.records("orders")]


def test_without_roll_the_active_segment_stays(tmp_path: Path) -> None:
    assert compact(stopped(tmp_path), includes_active=False, installs=True) == ["nothing to do"]


def test_compaction_with_roll_covers_the_whole_log_and_a_server_starts(tmp_path: Path) -> None:
    assert compact(stopped(tmp_path), installs=True) == ["installed"]
    assert compact(tmp_path, installs=True) == ["nothing to do"]
    with ottla.Broker(tmp_path, overrides=NEVER) as broker:
        assert [record.offset for record in broker.records("orders")] == list(range(45, 50))
        assert broker.produce("orders", "on", key="k0").offset == 50
        (row,) = broker.compact("orders").partitions
        assert (row.first_dirty_offset, row.waits_for) == (50, "active_segment")


def test_a_plan_from_before_the_roll_is_replaced(tmp_path: Path) -> None:
    with ottla.Broker(tmp_path, overrides=NEVER) as broker:
        broker.create_topic("orders", configs={"cleanup.policy": "compact"})
        for number in range(10):
            broker.produce("orders", str(number), key="k")
        broker.roll("orders")
        broker.produce("orders", "last", key="k")
    assert compact(tmp_path, includes_active=False) == ["staged"]
    assert compact(tmp_path, installs=True) == ["installed"]
    assert offsets(tmp_path) == [10]


def test_a_log_used_by_a_server_is_not_rolled(tmp_path: Path) -> None:
    with ottla.Broker(stopped(tmp_path), overrides=NEVER) as broker:
        with pytest.raises(StoreLockedError):
            compact(tmp_path)
        assert len(broker.explain("orders").partitions) == 1
    assert len(list((tmp_path / "orders-0").glob("*.log"))) == 1


def test_after_a_crash_a_roll_is_refused_until_the_next_start(tmp_path: Path) -> None:
    (stopped(tmp_path) / paths.CLEAN_SHUTDOWN_FILE).unlink()
    with pytest.raises(UsageError, match="was not stopped cleanly"):
        compact(tmp_path)


def test_an_empty_segment_stays(tmp_path: Path) -> None:
    store = Store(str(stopped(tmp_path)))
    assert roll(OsFiles(), store, TP, 0) == roll(OsFiles(), store, TP, 0) == 50
    assert len(list((tmp_path / "orders-0").glob("*.log"))) == 2
    assert offsets(tmp_path) == list(range(50))
