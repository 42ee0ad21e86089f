"""Pictures of a running broker's logs: before, during and after a pass."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from ottla.server.broker.broker import Broker
from ottla.server.control.clock import advance
from ottla.server.control.compaction import compact
from ottla.server.control.pictures import _TAKEN, partition_picture, topic_picture
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.cleaning.progress import Phase
from ottla.storage.pictures.log_picture import LogPicture
from support.broker.admin import delete, set_topic_configs
from support.broker.conversation import create_topic
from support.broker.steppable_wall import HOUR_MS
from support.control.on_demand import resting, write
from support.disk.gated_files import GatedFiles
from support.logs.make_log import append


async def picture(broker: Broker) -> LogPicture:
    (found,) = (await topic_picture(broker, "t")).partitions
    return found


async def test_a_pass_is_visible_while_running_and_then_as_the_last(tmp_path: Path) -> None:
    files = GatedFiles()
    async with resting(tmp_path, files) as (served, log):
        write(log, "abab", roll=True)
        before = await picture(served.broker)
        assert (before.running, before.last_pass, before.passes) == (None, None, 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(compact, served.broker, "t")
            await files.reached()
            during = (await picture(served.broker)).running
            assert during is not None
            assert (during.phase, during.group, during.group_count) == (Phase.GROUPS, 1, 1)
            assert (during.first_dirty_offset, during.upper_offset, during.map_offset) == (0, 4, 4)
            assert (during.map_bytes_read, during.bytes_read, during.bytes_to_read) == (
                during.map_bytes,
                0,
                before.size_bytes,
            )
            assert (during.group_base_offset, during.group_end_offset) == (0, 4)
            files.let_on()
        after = await picture(served.broker)
        last = after.last_pass
        assert (after.running, after.passes) == (None, 1)
        assert last is not None
        assert (last.segments_before, last.segments_after, last.records_before, last.records_after) == (4, 1, 4, 2)
        assert (last.bytes_before, last.bytes_after) == (before.size_bytes, after.size_bytes)
        assert last.removed == (("superseded", 2),)
        assert last.ended_at_ms == served.broker.clock.now_ms()
        assert [bar.part for bar in after.bars] == ["clean", "active"]


async def test_an_abandoned_pass_is_not_the_last(tmp_path: Path) -> None:
    files = GatedFiles()
    async with resting(tmp_path, files) as (served, log):
        write(log, "abab", roll=True)
        async with trio.open_nursery() as nursery:

            async def refused() -> None:
                with pytest.raises(ControlError):
                    await compact(served.broker, "t")

            nursery.start_soon(refused)
            await files.reached()
            await set_topic_configs(served.broker, "t", {"cleanup.policy": "delete"})
            files.let_on()
        found = await picture(served.broker)
        assert (found.running, found.last_pass, found.passes) == (None, None, 0)


async def test_a_recreated_topic_has_no_earlier_pass(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "aba", roll=True)
        await compact(served.broker, "t")
        await served.ask(delete, "t")
        await served.ask(create_topic, "t", cleanup_policy="compact")
        assert (await picture(served.broker)).last_pass is None


async def test_a_scan_finds_survivors_gaps_and_the_delete_horizon(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "abab", roll=True)
        append(log, ("c", None), now_ms=served.broker.clock.now_ms(), roll=True)
        await compact(served.broker, "t", force=True)
        look = await partition_picture(served.broker, "t", 0)
        assert [bucket.records for bucket in look.contents.buckets] == [0, 0, 1, 1, 1]
        assert [bucket.tombstones for bucket in look.contents.buckets] == [0, 0, 0, 0, 1]
        assert look.contents.horizon is not None
        assert look.contents.horizon.at_ms == served.broker.clock.now_ms() + log.config.delete_retention_ms
        assert (await picture(served.broker)).horizon == look.contents.horizon
        part = await partition_picture(served.broker, "t", 0, from_offset=1, to_offset=99, buckets=2)
        assert [(each.from_offset, each.to_offset) for each in part.contents.buckets] == [(1, 3), (3, 5)]


async def test_an_invalid_range_is_refused_and_one_beyond_the_log_empty(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        found = await partition_picture(served.broker, "t", 0, from_offset=7, to_offset=9)
        assert (found.contents.buckets, found.contents.records) == ((), 0)
        for fields, kind in (
            ({"from_offset": 3, "to_offset": 2}, Kind.INVALID),
            ({"from_offset": -1}, Kind.INVALID),
            ({"buckets": 0}, Kind.INVALID),
            ({"buckets": 1_001}, Kind.INVALID),
        ):
            with pytest.raises(ControlError) as refused:
                await partition_picture(served.broker, "t", 0, **fields)
            assert refused.value.kind is kind
        with pytest.raises(ControlError) as missing:
            await partition_picture(served.broker, "u", 0)
        assert missing.value.kind is Kind.NOT_FOUND


async def test_a_cached_picture_equals_a_new_one(tmp_path: Path) -> None:
    """The pictures are compared after each event that changes one."""
    async with resting(tmp_path) as (served, log):
        broker = served.broker

        async def look() -> LogPicture:
            kept = await picture(broker)
            _TAKEN.clear()
            assert await picture(broker) == kept
            return kept

        seen = [await look()]
        assert await picture(broker) is await picture(broker)
        write(log, "ab")
        seen.append(await look())
        log.roll(broker.clock.now_ms())
        seen.append(await look())
        write(log, "ab", roll=True)
        seen.append(await look())
        await compact(broker, "t")
        seen.append(await look())
        log.advance_log_start(1)
        seen.append(await look())
        await partition_picture(broker, "t", 0)
        await set_topic_configs(broker, "t", {"cleanup.policy": "delete"})
        seen.append(await look())
        assert all(one != following for one, following in pairwise(seen))


async def test_parts_that_only_time_changes_are_measured_again(tmp_path: Path) -> None:
    """A lag ends, and nothing else happens to the log."""
    async with resting(tmp_path, topic={"max_compaction_lag_ms": HOUR_MS}) as (served, log):
        write(log, "abcdefghij", roll=True)
        await compact(served.broker, "t")
        write(log, "k", roll=True)
        assert not (await picture(served.broker)).eligible
        clock = served.broker.clock
        found = await picture(served.broker)
        assert found.eligible_at_ms is not None
        await advance(served.broker, found.eligible_at_ms - clock.now_ms())
        assert (await picture(served.broker)).eligible or (await picture(served.broker)).passes > found.passes


async def test_an_offline_log_is_shown_in_its_last_state(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "ab", roll=True)
        before = await picture(served.broker)
        log.fail(OSError(errno.EIO, "Input/output error"))
        found = await picture(served.broker)
        assert (found.bars, found.waits_for, found.eligible) == (before.bars, "offline", False)
        assert "Input/output error" in found.explanation


async def test_a_failing_picture_does_not_fail_the_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr("ottla.storage.pictures.passes.pass_done")
    async with resting(tmp_path) as (served, log):
        write(log, "aba", roll=True)
        await compact(served.broker, "t")
        found = await picture(served.broker)
        assert (found.passes, found.last_pass, found.first_dirty_offset) == (1, None, 3)
    assert "its picture cannot be drawn" in caplog.text


async def test_damage_is_refused_in_one_line(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "ab", roll=True)
        file = next(tmp_path.rglob("00000000000000000000.log"))
        file.write_bytes(b"\xff" * file.stat().st_size)
        with pytest.raises(ControlError) as refused:
            await partition_picture(served.broker, "t", 0)
        assert refused.value.kind is Kind.FAILED
