"""The broker's clock: moving it ends the waits that become due, and setting the wall clock does nothing to them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from ottla.server.runtime.clock import Clock, wall_time_ms
from support.broker.steppable_wall import HOUR_MS, SteppableWall, virtual_ms


def virtual_clock() -> Clock:
    return Clock(SteppableWall(), virtual_ms)


async def test_it_starts_at_the_wall_time_and_moves_by_what_it_is_told() -> None:
    clock = Clock()
    before = wall_time_ms()
    assert before <= clock.now_ms() <= wall_time_ms()
    clock.advance(3_600_000)
    assert clock.now_ms() >= before + 3_600_000


async def test_a_wait_ends_when_time_has_passed(autojump_clock: trio.testing.MockClock) -> None:
    clock = virtual_clock()
    start = clock.elapsed_ms()
    await clock.sleep_until(start + 5_000)
    assert clock.elapsed_ms() == start + 5_000


async def test_a_wait_ends_as_soon_as_the_clock_is_moved_past_it(autojump_clock: trio.testing.MockClock) -> None:
    clock, ended_at = virtual_clock(), []

    async def wait() -> None:
        await clock.sleep(86_400_000)
        ended_at.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(wait)
        await trio.sleep(1)
        clock.advance(80_000_000)
        await trio.sleep(1)
        clock.advance(6_400_000)
    assert ended_at == [start + 2]


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
async def test_a_wall_clock_that_is_set_moves_no_wait(step_ms: int, autojump_clock: trio.testing.MockClock) -> None:
    wall = SteppableWall()
    clock, start = Clock(wall, virtual_ms), trio.current_time()
    wall_before_ms = clock.now_ms()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.sleep, 60_000)
        await trio.sleep(1)
        wall.step(step_ms)
        assert clock.now_ms() - wall_before_ms == 1_000 + step_ms
    assert trio.current_time() == start + 60


async def test_a_clock_that_is_moved_back_takes_back_the_wall_time_alone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock, start = virtual_clock(), trio.current_time()
    wall_before_ms, elapsed_before_ms = clock.now_ms(), clock.elapsed_ms()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.sleep, 60_000)
        await trio.sleep(1)
        clock.advance(-HOUR_MS)
        assert clock.now_ms() - wall_before_ms == 1_000 - HOUR_MS
        assert clock.elapsed_ms() - elapsed_before_ms == 1_000
    assert trio.current_time() == start + 60


async def test_a_steppable_wall_goes_by_trios_clock_between_its_steps(autojump_clock: trio.testing.MockClock) -> None:
    wall = SteppableWall()
    before_ms = wall()
    await trio.sleep(5)
    assert wall() - before_ms == 5_000
    wall.step(HOUR_MS)
    assert wall() - before_ms == 5_000 + HOUR_MS
    wall.step(-3 * HOUR_MS)
    assert wall() - before_ms == 5_000 - 2 * HOUR_MS
