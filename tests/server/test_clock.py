"""The broker's clock: it can be moved, and moving it ends the waits that become due."""

from __future__ import annotations

import trio
import trio.testing

from ottla.server.clock import Clock, wall_time_ms


def virtual_clock() -> Clock:
    return Clock(source=lambda: int(trio.current_time() * 1000))


async def test_it_starts_at_the_wall_time_and_moves_by_what_it_is_told() -> None:
    clock = Clock()
    before = wall_time_ms()
    assert before <= clock.now_ms() <= wall_time_ms()
    clock.advance(3_600_000)
    assert clock.now_ms() >= before + 3_600_000


async def test_a_wait_ends_when_time_has_passed(autojump_clock: trio.testing.MockClock) -> None:
    clock = virtual_clock()
    start = clock.now_ms()
    await clock.sleep_until(start + 5_000)
    assert clock.now_ms() == start + 5_000


async def test_a_wait_ends_as_soon_as_the_clock_is_moved_past_it(autojump_clock: trio.testing.MockClock) -> None:
    clock, ended_at = virtual_clock(), []

    async def wait() -> None:
        await clock.sleep_until(clock.now_ms() + 86_400_000)
        ended_at.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(wait)
        await trio.sleep(1)
        clock.advance(80_000_000)
        await trio.sleep(1)
        clock.advance(6_400_000)
    assert ended_at == [start + 2]
