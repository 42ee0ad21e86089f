"""The clock, moved by hand: rolls, due work, a frozen clock, and refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from ottla.protocol.errors import ErrorCode
from ottla.server.broker.broker import Broker
from ottla.server.control.clock import advance, freeze, read, set_to, unfreeze
from ottla.server.runtime.clock import NOW_MS_MAX, Clock
from ottla.server.runtime.errors import ControlError, Kind
from ottla.server.transactions.writes import TransactionalWrites
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.record_checks import EarlyRefusalError
from support.broker.conversation import create_topic
from support.broker.served import serving
from support.broker.steppable_wall import HOUR_MS, START_MS
from support.control.on_demand import T_0, log_of, resting, standing_clock, write
from support.disk.gated_files import GatedFiles
from support.disk.troubled_files import TroubledFiles, full
from support.logs.batches import batch
from support.logs.make_log import contents

DAY_MS = 24 * HOUR_MS
QUICK = {"log_cleaner_backoff_ms": "15000", "log_retention_check_interval_ms": "300000"}


def offsets(broker: Broker) -> list[int]:
    return [offset for offset, _, _ in contents(log_of(broker))]


# Rolls


async def test_a_segment_rolls_exactly_segment_ms_after_its_start(tmp_path: Path) -> None:
    async with resting(tmp_path, topic={"segment_ms": DAY_MS}) as (served, log):
        write(log, "a", timestamp=1_000)  # a client's timestamp does not count
        assert (await advance(served.broker, DAY_MS)).rolled == ()
        assert (await advance(served.broker, 1)).rolled == (T_0,)
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        assert (await advance(served.broker, 10 * DAY_MS)).rolled == (), "an empty segment stays"


async def test_a_segments_age_starts_with_its_first_record(tmp_path: Path) -> None:
    async with resting(tmp_path, topic={"segment_ms": DAY_MS}) as (served, log):
        await advance(served.broker, 10 * DAY_MS)
        log.append(memoryview(one_batch()), now_ms=served.broker.clock.now_ms())
        assert (await advance(served.broker, DAY_MS)).rolled == ()
        log.append(memoryview(one_batch()), now_ms=served.broker.clock.now_ms())
        assert (await advance(served.broker, 1)).rolled == (T_0,)


def one_batch() -> bytearray:
    return batch(("k", "v"))


@pytest.mark.parametrize(
    ("configs", "rolls_after_ms"),
    [
        ({"cleanup_policy": "compact", "segment_ms": 2 * DAY_MS, "max_compaction_lag_ms": DAY_MS}, DAY_MS + 1),
        ({"cleanup_policy": "delete", "segment_ms": 2 * DAY_MS, "max_compaction_lag_ms": DAY_MS}, 2 * DAY_MS + 1),
        ({"cleanup_policy": "compact"}, 7 * DAY_MS + 1),
    ],
)
async def test_the_remaining_time_of_a_segment_is_known(
    configs: dict[str, Any], rolls_after_ms: int, tmp_path: Path
) -> None:
    async with resting(tmp_path, topic=configs) as (served, log):
        write(log, "a")
        assert (await advance(served.broker, rolls_after_ms - 1)).rolled == ()
        assert (await advance(served.broker, 1)).rolled == (T_0,)


async def test_jitter_makes_a_roll_earlier_as_for_appends(tmp_path: Path) -> None:
    async with resting(tmp_path, topic={"segment_ms": DAY_MS, "segment_jitter_ms": HOUR_MS}) as (served, log):
        write(log, "a", roll=True)
        write(log, "b")
        early_ms = log.segments.active.rolling_jitter_ms
        assert 0 < early_ms < HOUR_MS
        assert (await advance(served.broker, DAY_MS - early_ms)).rolled == ()
        assert (await advance(served.broker, 1)).rolled == (T_0,)


@pytest.mark.parametrize(
    ("first_ms", "rolls_after_ms"),
    [(START_MS - HOUR_MS, DAY_MS - HOUR_MS + 1), (START_MS, DAY_MS + 1), (-1, DAY_MS + 1)],
)
async def test_after_a_restart_the_first_timestamp_or_the_start_determines_the_roll(
    first_ms: int, rolls_after_ms: int, tmp_path: Path
) -> None:
    async with resting(tmp_path, topic={"segment_ms": DAY_MS}) as (_, log):
        write(log, "a", timestamp=first_ms)
    async with serving(tmp_path, OsFiles(), standing_clock()) as served:
        write(log_of(served.broker), "b", timestamp=START_MS + HOUR_MS)
        assert (await advance(served.broker, rolls_after_ms - 1)).rolled == ()
        assert (await advance(served.broker, 1)).rolled == (T_0,)


async def test_a_log_that_cannot_roll_stops_no_clock_and_no_other_log(tmp_path: Path) -> None:
    files = TroubledFiles()
    async with resting(tmp_path, files) as (served, log):
        await served.ask(create_topic, "other")
        for each in (log, log_of(served.broker, "other")):
            write(each, "a")
        files.trouble = full("/t-0")
        moved = await advance(served.broker, 8 * DAY_MS)
        assert moved.rolled == (TopicPartition("other", 0),)
        assert moved.now_ms == START_MS + 8 * DAY_MS


# Due work


async def test_a_round_of_the_cleaner_ends_before_advance_returns(tmp_path: Path) -> None:
    async with resting(tmp_path, options=QUICK) as (served, log):
        write(log, "aab")
        moved = await advance(served.broker, 8 * DAY_MS)
        assert (moved.rolled, moved.is_settled) == ((T_0,), True)
        assert offsets(served.broker) == [1, 2]


async def test_a_round_started_before_the_move_is_followed_by_another(tmp_path: Path) -> None:
    files = GatedFiles()
    async with resting(tmp_path, files, options=QUICK) as (served, log):
        await served.ask(create_topic, "other", cleanup_policy="compact")
        write(log_of(served.broker, "other"), "aa", roll=True)
        write(log, "aa")
        served.broker.services.cleaning.look_again()
        await files.reached()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(advance, served.broker, 8 * DAY_MS)
            await trio.sleep(0.01)
            files.let_on()
        assert offsets(served.broker) == [1]


async def test_retention_ends_before_advance_returns(tmp_path: Path) -> None:
    topic = {"cleanup_policy": "delete", "retention_ms": DAY_MS}
    async with resting(tmp_path, topic=topic, options=QUICK) as (served, log):
        write(log, "aab")
        await advance(served.broker, DAY_MS)
        assert offsets(served.broker) == [0, 1, 2]
        await advance(served.broker, HOUR_MS)
        assert offsets(served.broker) == []
        assert log.log_start_offset == 3


async def test_unfinished_work_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.control.clock.SETTLED_WITHIN_S", 0.05)
    files = GatedFiles()
    async with resting(tmp_path, files, options=QUICK) as (served, log):
        write(log, "aab")
        assert not (await advance(served.broker, 8 * DAY_MS)).is_settled
        files.let_on()
        monkeypatch.undo()  # however long the pass takes now
        assert (await advance(served.broker, 0)).is_settled
        assert offsets(served.broker) == [1, 2]


# Set, freeze


async def test_setting_the_clock_ahead_advances_and_setting_back_moves_wall_time(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "a")
        clock = served.broker.clock
        assert (await set_to(served.broker, START_MS + 8 * DAY_MS)).rolled == (T_0,)
        assert clock.elapsed_ms() == 8 * DAY_MS
        assert (await set_to(served.broker, 1_000)).now_ms == 1_000
        assert (clock.now_ms(), clock.elapsed_ms()) == (1_000, 8 * DAY_MS)


async def test_a_frozen_clock_moves_on_request(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles(), Clock()) as served:
        frozen = freeze(served.broker)
        assert frozen == freeze(served.broker)
        await trio.sleep(0.005)
        assert read(served.broker) == frozen
        moved = await advance(served.broker, HOUR_MS)
        assert (moved.now_ms, moved.is_frozen) == (frozen.now_ms + HOUR_MS, True)
        assert not unfreeze(served.broker).is_frozen
        await trio.sleep(0.005)
        assert moved.now_ms < read(served.broker).now_ms < moved.now_ms + HOUR_MS


async def test_a_produce_waiting_for_its_last_transaction_ignores_a_frozen_clock(tmp_path: Path) -> None:
    def check(_: TopicPartition) -> None:
        raise EarlyRefusalError(ErrorCode.CONCURRENT_TRANSACTIONS, "not yet")

    async with resting(tmp_path) as (served, _):
        freeze(served.broker)
        verification: Any = SimpleNamespace(check=check)
        writes = TransactionalWrites(served.broker.clock, served.broker.config.current, verification, waits=True)
        with pytest.raises(EarlyRefusalError):
            await writes.check(T_0)


WRONG: dict[str, tuple[Any, str]] = {
    "back": (-1, "advance: expected 0 ms or more, found -1"),
    "no number": ("1", "found '1'"),
    "a bool": (True, "found True"),
    "a fraction": (1.5, "found 1.5"),
    "beyond all calendars": (NOW_MS_MAX, "the end of the year 9999"),
}


@pytest.mark.parametrize(("by_ms", "says"), WRONG.values(), ids=WRONG.keys())
async def test_a_clock_is_not_moved_by_invalid_values(by_ms: Any, says: str, tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        with pytest.raises(ControlError) as refused:
            await advance(served.broker, by_ms)
        assert (refused.value.kind, says in str(refused.value)) == (Kind.INVALID, True), str(refused.value)
        assert served.broker.clock.now_ms() == START_MS


@pytest.mark.parametrize("now_ms", [-1, NOW_MS_MAX + 1, 1.0, True, None, "2026-01-01"])
async def test_a_clock_is_not_set_to_invalid_values(now_ms: Any, tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        with pytest.raises(ControlError, match="set: expected a time from 0 to"):
            await set_to(served.broker, now_ms)
        assert served.broker.clock.now_ms() == START_MS
