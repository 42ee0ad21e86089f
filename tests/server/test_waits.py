"""Parked fetches are woken by the bytes they miss, by a change, or by time, and always leave the table."""

from __future__ import annotations

import trio
import trio.testing

from ottla.server.waits import Waits
from ottla.storage.paths import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_a_fetch_wakes_once_all_missing_bytes_have_come(autojump_clock: trio.testing.MockClock) -> None:
    waits, woken_at = Waits(), []

    async def fetch() -> None:
        with waits.park([P0, P1], missing_bytes=100) as waiter:
            woken_at.append((await waiter.wait(60_000), trio.current_time()))

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(fetch)
        await trio.sleep(1)
        waits.grew(P0, 60)
        await trio.sleep(1)
        waits.grew(P1, 40)
    assert woken_at == [(True, start + 2)]


async def test_a_fetch_that_nothing_wakes_gives_up_after_its_time(autojump_clock: trio.testing.MockClock) -> None:
    waits = Waits()
    start = trio.current_time()
    with waits.park([P0], missing_bytes=1) as waiter:
        assert not await waiter.wait(500)
    assert trio.current_time() == start + 0.5


async def test_a_changed_partition_wakes_its_waiters_whatever_they_miss() -> None:
    waits = Waits()
    with waits.park([P0], missing_bytes=1 << 30) as waiter:
        waits.changed(P1)
        waits.changed(P0)
        assert await waiter.wait(60_000)


async def test_nothing_is_left_behind_when_a_waiter_leaves() -> None:
    waits = Waits()
    with waits.park([P0, P1], missing_bytes=1), waits.park([P0], missing_bytes=1):
        assert len(waits.table[P0]) == 2
    assert not waits.table
    waits.grew(P0, 10)
    assert not waits.table
