"""The cleaner's speed limit: the observed rate, and the resulting waits."""

from __future__ import annotations

import math
from functools import partial

import pytest
import trio
import trio.testing

from ottla.server.cleaning.throttler import PERIOD_S, Throttler

LIMIT = 1_000_000


def never() -> bool:
    return False


# Arithmetic. The first bytes only begin a period.


def begun(limit: float = LIMIT) -> Throttler:
    throttler = Throttler(limit)
    assert throttler.observe(1, 0.0) == 0
    return throttler


@pytest.mark.scenario(97)
@pytest.mark.parametrize(
    ("observed", "at_s", "waits_s"),
    [
        (500_000, 0.4, 0.1),  # half a second's bytes in 0.4 s
        (400_000, 0.4, 0.0),
        (100_000, 0.4, 0.0),
        (500_000, PERIOD_S, 0.0),  # bursts within a period are allowed
        (500_000, 0.31, 0.19),
        (0, 0.4, 0.0),
    ],
)
def test_the_duration_of_a_period_follows_its_bytes(observed: int, at_s: float, waits_s: float) -> None:
    assert begun().observe(observed, at_s) == pytest.approx(waits_s)


def test_bytes_of_a_period_add_up() -> None:
    throttler = begun()
    assert [throttler.observe(200_000, at_s) for at_s in (0.1, 0.2, 0.3)] == [0, 0, 0]
    assert throttler.observe(200_000, 0.5) == pytest.approx(0.3)


def test_a_wait_is_for_all_threads_and_its_bytes_count_afterwards() -> None:
    throttler = begun()
    assert throttler.observe(1_400_000, 0.4) == pytest.approx(1.0)
    assert throttler.observe(400_000, 0.9) == pytest.approx(0.5)  # until 1.4
    assert throttler.observe(0, 1.5) == 0
    assert throttler.observe(100_000, 1.8) == pytest.approx(0.1)  # 500 000 since 1.4


@pytest.mark.scenario(97)
def test_the_average_is_the_limit_in_the_long_run() -> None:
    throttler, now_s, moved = begun(), 0.0, 0
    while now_s < 100:
        moved += 70_000
        now_s += 0.01 + throttler.observe(70_000, now_s + 0.01)
    assert moved / now_s == pytest.approx(LIMIT, rel=0.01)


@pytest.mark.scenario(49, 98)
def test_a_changed_limit_applies_at_once_and_ends_the_wait() -> None:
    throttler = begun()
    assert throttler.observe(1_400_000, 0.4) == pytest.approx(1.0)
    throttler.set_limit(LIMIT, 0.5)
    assert throttler.observe(0, 0.5) == pytest.approx(0.9)  # the same limit: nothing has changed
    throttler.set_limit(2 * LIMIT, 0.5)
    assert throttler.observe(0, 0.5) == 0
    assert throttler.observe(1_000_000, 0.9) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("limit", "waits_s"), [(math.inf, 0.0), (1.7976931348623157e308, 0.0), (-5.0, 0.0), (0.0, math.inf)]
)
def test_zero_and_negative_limits_act_as_in_kafka(limit: float, waits_s: float) -> None:
    """A negative limit means no limit, and with 0 the cleaner waits until the limit changes."""
    throttler = begun(limit)
    assert throttler.observe(1, 0.4) == waits_s
    assert throttler.observe(1, 0.5) == waits_s
    throttler.set_limit(LIMIT, 0.6)
    assert throttler.observe(1, 0.7) == 0


def test_every_byte_is_counted() -> None:
    throttler = Throttler(math.inf)
    for number in range(5):
        assert throttler.hold(100, partial(float, number), never) == 0
    assert throttler.meter.count == 500


# Waits in virtual time, which continues while threads run: a test waits until its worker waits


class Worker:
    """A worker thread that the throttler may delay."""

    def __init__(self, throttler: Throttler) -> None:
        self.throttler = throttler
        self.must_stop = False
        self.waits = trio.Event()
        self.waited_s = 0.0

    def _asked(self) -> bool:
        """Note the throttler's question, which it asks on Trio's thread before it waits; return whether to stop."""
        self.waits.set()
        return self.must_stop

    async def move(self, moved_bytes: int) -> float:
        """Move this many bytes; return the delay."""
        now_s = trio.lowlevel.current_clock().current_time
        self.waited_s = await trio.to_thread.run_sync(self.throttler.hold, moved_bytes, now_s, self._asked)
        return self.waited_s


async def worker(throttler: Throttler) -> Worker:
    """Return a worker that has begun a period 0.4 s ago."""
    found = Worker(throttler)
    assert await found.move(1) == 0
    await trio.sleep(0.4)
    return found


async def test_a_worker_uses_the_clock_of_its_run(autojump_clock: trio.testing.MockClock) -> None:
    first = await worker(Throttler(LIMIT))
    assert await first.move(5_400_000) == pytest.approx(5.0)


async def test_a_changed_limit_ends_a_wait(autojump_clock: trio.testing.MockClock) -> None:
    first = await worker(Throttler(0.0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.move, 1)
        await first.waits.wait()
        await trio.sleep(7)
        first.throttler.set_limit(LIMIT, trio.current_time())
    assert first.waited_s == pytest.approx(7.0)


async def test_a_stopping_pass_does_not_continue_to_wait(autojump_clock: trio.testing.MockClock) -> None:
    first = await worker(Throttler(0.0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.move, 1)
        await first.waits.wait()
        await trio.sleep(7)
        first.must_stop = True
        first.throttler.wake()
    assert first.waited_s == pytest.approx(7.0)
    assert await first.move(1) == 0
