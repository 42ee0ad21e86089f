"""Waiting for passes that cover the records of closed segments: never too short, and with a reason when it takes too long."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from ottla.server.broker.broker import Broker
from ottla.server.control.clock import advance
from ottla.server.control.compaction import Compacted, compact, wait_until_compacted
from ottla.server.control.segments import roll
from ottla.server.runtime import time_slices
from ottla.server.runtime.errors import ControlError, Kind
from ottla.storage.logs.log import Log
from support.broker.admin import set_topic_configs
from support.broker.conversation import create_topic
from support.broker.served import Served
from support.broker.steppable_wall import START_MS
from support.control.on_demand import T_0, log_of, resting, write
from support.disk.gated_files import GatedFiles
from support.logs.make_log import Producer, append, contents
from support.sizes import size

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def offsets(log: Log) -> list[int]:
    return [offset for offset, _, _ in contents(log)]


def covered(done: Compacted) -> tuple[int, int]:
    (row,) = done.partitions
    return row.waited_for_offset, row.first_dirty_offset


async def test_the_wait_ends_after_a_pass_covers_the_closed_segments(tmp_path: Path) -> None:
    files, done = GatedFiles(), []
    async with resting(tmp_path, files) as (served, log), trio.open_nursery() as nursery:
        write(log, "aab", roll=True)

        async def wait() -> None:
            done.append(await wait_until_compacted(served.broker, "t"))

        nursery.start_soon(wait)
        await trio.sleep(0.01)
        served.broker.services.cleaning.look_again()
        await files.reached()
        write(log, "bb", roll=True)  # not there at the call
        assert not done
        files.let_on()
    assert [covered(each) for each in done] == [(3, 3)]


async def test_waiting_starts_no_pass(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        write(log, "aa", roll=True)
        with pytest.raises(ControlError) as refused:
            await wait_until_compacted(served.broker, "t", 0.01)
        assert refused.value.kind is Kind.TIMED_OUT
        assert str(refused.value).startswith(
            "t-0 is clean up to offset 0, not 2, after 0.01 s: the cleaner will clean it"
        )
        assert offsets(log) == [0, 1]


async def test_already_covered_records_are_not_waited_for(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        assert covered(await wait_until_compacted(served.broker, "t", 0)) == (0, 0)
        write(log, "aab", roll=True)
        await compact(served.broker, "t")
        write(log, "b")
        done = await wait_until_compacted(served.broker, "t", 0)
        assert covered(done) == (3, 3)
        assert done.partitions[0].waits_for == "active_segment"


def rolled(log: Log) -> None:
    write(log, "aab", roll=True)


def open_transaction(log: Log) -> None:
    Producer(log, 7, transactional=True, now_ms=START_MS).write("a")
    write(log, "aa", roll=True)


def in_the_active_segment(log: Log) -> None:
    write(log, "aab")


REASONS: dict[str, tuple[Callable[[Log], None], dict[str, Any], str]] = {
    "active": (in_the_active_segment, {}, "active segment"),
    "young": (rolled, {"min_compaction_lag_ms": HOUR_MS}, "min.compaction.lag.ms=3600000"),
    "ratio": (rolled, {"min_cleanable_dirty_ratio": 1.0}, "min.cleanable.dirty.ratio=1"),
    "undecided": (open_transaction, {}, "producer 7 has an open transaction since offset 0"),
}


@pytest.mark.parametrize(("state", "configs", "says"), REASONS.values(), ids=REASONS.keys())
async def test_a_timed_out_wait_reports_the_cleaners_obstacle(
    state: Callable[[Log], None], configs: dict[str, Any], says: str, tmp_path: Path
) -> None:
    async with resting(tmp_path, topic=configs, options={"log_cleaner_backoff_ms": "1"}) as (served, log):
        state(log)
        with pytest.raises(ControlError) as refused:
            await wait_until_compacted(served.broker, "t", 0.01)
        assert refused.value.kind is Kind.TIMED_OUT
        assert says in str(refused.value)


async def test_a_frozen_clock_is_named(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log):
        served.broker.clock.freeze()
        rolled(log)
        with pytest.raises(ControlError, match="the clock is frozen, so the cleaner starts no round"):
            await wait_until_compacted(served.broker, "t", 0.01)


async def test_a_wait_after_a_roll_covers_the_whole_log(tmp_path: Path) -> None:
    async with resting(tmp_path, options={"log_cleaner_backoff_ms": "15000"}) as (served, log):
        write(log, "aab")
        await roll(served.broker, "t")
        await advance(served.broker, 15_000)
        assert covered(await wait_until_compacted(served.broker, "t")) == (3, 3)
        assert offsets(log) == [1, 2]


async def test_an_external_compaction_counts_after_its_completion(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, log), trio.open_nursery() as nursery:
        rolled(log)
        lease = await served.broker.leases.pause(T_0, HOUR_MS)
        done: list[Compacted] = []

        async def wait() -> None:
            done.append(await wait_until_compacted(served.broker, "t"))
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait)
        await trio.sleep(0.01)
        assert not done
        await served.broker.leases.resume(T_0, lease.lease_id, 3)
    assert [covered(each) for each in done] == [(3, 3)]


async def change_policy(served: Served) -> None:
    await set_topic_configs(served.broker, "t", {"cleanup.policy": "delete"})


async def delete_topic(served: Served) -> None:
    topic = served.broker.services.topics.get("t")
    assert topic is not None
    await served.broker.services.topic_admin.delete(topic)


async def stop(served: Served) -> None:
    served.broker.services.cleaning.stop()


ENDS = {
    "another policy": (change_policy, "cleanup.policy is delete"),
    "deleted": (delete_topic, "was deleted"),
    "stopped": (stop, "the broker is stopping"),
}


@pytest.mark.parametrize(("end", "says"), ENDS.values(), ids=ENDS.keys())
async def test_a_wait_that_cannot_succeed_ends(end: Callable[[Served], Any], says: str, tmp_path: Path) -> None:
    refused = []
    async with resting(tmp_path) as (served, log), trio.open_nursery() as nursery:
        rolled(log)

        async def wait() -> None:
            with pytest.raises(ControlError) as caught:
                await wait_until_compacted(served.broker, "t", 60)
            refused.append(str(caught.value))

        nursery.start_soon(wait)
        await trio.sleep(0.01)
        await end(served)
    (sentence,) = refused
    assert says in sentence


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), float("inf"), "1", None, True, 86_401])
async def test_wrong_timeouts_are_refused(timeout_s: Any, tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        with pytest.raises(ControlError, match="timeout_s: expected seconds from 0 to 86400"):
            await wait_until_compacted(served.broker, "t", timeout_s)


@pytest.mark.parametrize("seed", range(size(1, 20)))
async def test_on_a_random_history_the_wait_never_ends_early(seed: int, tmp_path: Path) -> None:
    """Each key below the offset that it waited for occurs once: this is the meaning of compacted."""
    rng = random.Random(seed)
    async with resting(
        tmp_path, options={"log_cleaner_backoff_ms": "1"}, topic={"min_cleanable_dirty_ratio": 0.01}
    ) as (
        served,
        log,
    ):
        for _ in range(size(6, 12)):
            for _ in range(rng.randrange(1, 8)):
                act(rng, log)
            served.broker.clock.advance(rng.choice((0, 1, 5)))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(come_between, rng, served.broker, log)
                done = await wait_until_compacted(served.broker, "t", 30)
            (row,) = done.partitions
            if row.waited_for_offset == log.log_end_offset and not log.segments.non_active():
                continue
            keys = Counter(key for offset, key, _ in contents(log) if offset < row.waited_for_offset)
            assert all(count == 1 for count in keys.values()), (seed, row, keys)
            assert row.first_dirty_offset >= row.waited_for_offset


def act(rng: random.Random, log: Log) -> None:
    for _ in range(rng.randrange(1, 4)):
        append(
            log, *((rng.choice("abcdef"), str(log.log_end_offset)) for _ in range(rng.randrange(1, 4))), now_ms=START_MS
        )
    log.roll(START_MS)
    if rng.random() < 0.3:
        append(log, ("z", "in the active segment"), now_ms=START_MS)


async def come_between(rng: random.Random, broker: Broker, log: Log) -> None:
    for _ in range(rng.randrange(4)):
        act(rng, log)
        await trio.sleep(rng.choice((0, 0.001)))
        broker.clock.advance(1)
    for _ in range(50):  # the cleaner's back-off uses a clock that stands still
        broker.clock.advance(1)
        await trio.sleep(0.002)


async def test_partitions_may_be_named(tmp_path: Path) -> None:
    async with resting(tmp_path) as (served, _):
        await served.ask(create_topic, "many", 2, cleanup_policy="compact")
        write(log_of(served.broker, "many", 0), "aa", roll=True)
        done = await wait_until_compacted(served.broker, "many", 0, partitions=[1])
        assert [row.partition for row in done.partitions] == [1]


async def test_many_partitions_are_examined_in_time_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with resting(tmp_path, topic={"partitions": 20}) as (served, _):
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        monkeypatch.setattr(time_slices, "PASS_S", 0)
        before = time_slices.passes()
        await wait_until_compacted(served.broker, "t")
        assert time_slices.passes() - before >= 40
