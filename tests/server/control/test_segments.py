"""Segments on demand: rolls, and retention."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.server.control.clock import advance
from ottla.server.control.segments import Retained, apply_retention, roll
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.logs.log import Log
from support.broker.conversation import create_topic, fetch, records_of
from support.broker.steppable_wall import HOUR_MS
from support.control.on_demand import T_0, log_of, resting, write
from support.disk.gated_files import GatedFiles
from support.disk.troubled_files import TroubledFiles, full

DELETE: dict[str, Any] = {"cleanup_policy": "delete"}


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


async def test_a_roll_seals_existing_records_and_keeps_an_empty_segment(tmp_path: Path) -> None:
    async with resting(tmp_path, topic=DELETE) as (served, log):
        write(log, "ab")
        (row,) = (await roll(served.broker, "t")).partitions
        assert (row.has_rolled, row.active_segment_before, row.active_segment, row.log_end_offset) == (True, 0, 2, 2)
        (again,) = (await roll(served.broker, "t")).partitions
        assert (again.has_rolled, again.active_segment_before, again.active_segment) == (False, 2, 2)
        assert bases(log) == [0, 2]


async def test_clients_continue_after_a_roll(tmp_path: Path) -> None:
    async with resting(tmp_path, topic=DELETE) as (served, log):
        write(log, "ab")
        await roll(served.broker, "t", [0])
        write(log, "c")
        found = [records_of(await served.ask(fetch, "t", offset)) for offset in (0, 2)]
        assert [[key for _, key, _ in each] for each in found] == [[b"a", b"b"], [b"c"]]


async def test_a_roll_refused_by_the_disk_is_reported(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with resting(tmp_path, files) as (served, log):
        write(log, "a")
        files.trouble = full(".log")
        with pytest.raises(ControlError, match="No space left") as refused:
            await roll(served.broker, "t")
        assert refused.value.kind is Kind.FAILED
        files.trouble = lambda operation, path: None
        (row,) = (await roll(served.broker, "t")).partitions
        assert row.has_rolled


def deleted(done: Retained) -> list[tuple[str, int, int, int]]:
    return [
        (row.topic, row.segments_deleted, row.log_start_offset_before, row.log_start_offset) for row in done.partitions
    ]


async def test_retention_is_applied_by_size_by_age_and_by_log_start(tmp_path: Path) -> None:
    async with resting(tmp_path, topic=DELETE | {"retention_ms": HOUR_MS}) as (served, log):
        await served.ask(create_topic, "sized", cleanup_policy="delete", retention_bytes=0)
        await served.ask(create_topic, "compacted", cleanup_policy="compact")
        others = [log_of(served.broker, name) for name in ("sized", "compacted")]
        for each in (log, *others):
            write(each, "abc", roll=True)
        others[1].advance_log_start(2)
        done = await apply_retention(served.broker)
        assert sorted(deleted(done)) == [("compacted", 2, 2, 2), ("sized", 3, 0, 3), ("t", 0, 0, 0)]
        assert all(row.explanation is None for row in done.partitions)
        await advance(served.broker, HOUR_MS + 1)
        before_bytes = log.size_bytes
        (row,) = (await apply_retention(served.broker, "t")).partitions
        assert (row.segments_deleted, row.bytes_deleted, row.log_start_offset) == (3, before_bytes, 3)


async def test_a_running_pass_is_waited_for(tmp_path: Path) -> None:
    files, done = GatedFiles(), []
    async with resting(tmp_path, files, topic={"cleanup_policy": "compact,delete", "retention_bytes": 0}) as (
        served,
        log,
    ):
        write(log, "aab", roll=True)
        served.broker.services.cleaning.look_again()
        await files.reached()
        async with trio.open_nursery() as nursery:

            async def apply() -> None:
                done.append(await apply_retention(served.broker, "t"))

            nursery.start_soon(apply)
            await trio.sleep(0.01)
            assert not done
            files.let_on()
        assert log.log_start_offset == 3


async def test_a_leased_partition_is_reported(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        await served.ask(create_topic, "other", cleanup_policy="delete", retention_bytes=0)
        write(log_of(served.broker, "other"), "ab")
        await served.broker.leases.pause(T_0, HOUR_MS)
        with pytest.raises(ControlError, match="t-0 is paused: another process compacts it") as refused:
            await apply_retention(served.broker, "t")
        assert refused.value.kind is Kind.CONFLICT
        rows = {row.topic: row for row in (await apply_retention(served.broker)).partitions}
        assert rows["t"].explanation == "t-0 is paused: another process compacts it"
        assert rows["other"].segments_deleted == 1


async def test_a_deletion_refused_by_the_disk_is_reported(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with resting(tmp_path, files, topic=DELETE | {"retention_bytes": 0}) as (served, log):
        write(log, "ab", roll=True)
        files.trouble = lambda operation, path: (
            (_ for _ in ()).throw(OSError(30, "read-only")) if operation == "rename" else None
        )
        with pytest.raises(ControlError, match="read-only"):
            await apply_retention(served.broker, "t")
