"""The broker's clock: moving it ends the waits that become due, and setting the wall clock does not change them."""

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


# Standing still


async def test_a_frozen_clock_stands_still_and_goes_on_from_where_it_stood(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock = virtual_clock()
    clock.freeze()
    stood = clock.now_ms(), clock.elapsed_ms()
    await trio.sleep(5)
    clock.freeze()
    assert (clock.now_ms(), clock.elapsed_ms()) == stood
    clock.unfreeze()
    assert (clock.now_ms(), clock.elapsed_ms()) == stood
    await trio.sleep(2)
    clock.unfreeze()
    assert (clock.now_ms(), clock.elapsed_ms()) == (stood[0] + 2_000, stood[1] + 2_000)


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
async def test_a_frozen_clock_is_moved_by_hand_alone(by_ms: int, autojump_clock: trio.testing.MockClock) -> None:
    clock = virtual_clock()
    clock.freeze()
    now_ms, elapsed_ms = clock.now_ms(), clock.elapsed_ms()
    await trio.sleep(5)
    clock.advance(by_ms)
    assert (clock.now_ms(), clock.elapsed_ms()) == (now_ms + by_ms, elapsed_ms + max(0, by_ms))


async def test_a_wait_on_a_frozen_clock_ends_when_it_is_moved_or_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock, woken = virtual_clock(), []

    async def wait(for_ms: int) -> None:
        await clock.sleep(for_ms)
        woken.append((for_ms, trio.current_time() - begun_s))

    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        for for_ms in (10_000, 60_000):
            nursery.start_soon(wait, for_ms)
        await trio.sleep(4)
        clock.freeze()
        await trio.sleep(100)
        assert not woken
        clock.advance(6_000)
        await trio.sleep(100)
        clock.unfreeze()
    assert woken == [(10_000, 104), (60_000, 254)]


async def test_a_wait_on_a_frozen_clock_does_not_run_busy() -> None:
    clock = Clock()
    steps = 0

    class Counting(trio.abc.Instrument):
        def task_scheduled(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.sleep, 1)
        clock.freeze()
        trio.lowlevel.add_instrument(counting := Counting())
        await trio.sleep(0.02)
        trio.lowlevel.remove_instrument(counting)
        clock.unfreeze()
    assert steps < 10


async def test_a_clock_that_begins_anew_forgets_every_move(autojump_clock: trio.testing.MockClock) -> None:
    clock = virtual_clock()
    before = clock.now_ms(), clock.elapsed_ms()
    clock.advance(HOUR_MS)
    clock.freeze()
    clock.reset()
    assert (clock.now_ms(), clock.elapsed_ms(), clock.is_frozen) == (*before, False)


# Work in progress


async def test_whoever_moves_it_can_wait_for_those_whose_time_has_come() -> None:
    clock, events = virtual_clock(), []
    working = trio.Event()

    async def job() -> None:
        with clock.at_work():
            working.set()
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            events.append("done")

    await clock.at_rest()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(job)
        nursery.start_soon(job)
        await working.wait()
        assert clock.has_jobs
        await clock.at_rest()
        assert events == ["done", "done"]
        assert not clock.has_jobs


async def test_a_job_that_fails_is_at_work_no_longer() -> None:
    clock = virtual_clock()
    with pytest.raises(ValueError), clock.at_work():
        raise ValueError
    await clock.at_rest()
