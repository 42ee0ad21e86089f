"""A moment in which no task has work."""

from __future__ import annotations

import trio

from ottla.server.control.clock import idle


async def test_a_woken_task_has_run_to_its_next_wait() -> None:
    events, begin = [], trio.Event()

    async def work() -> None:
        await begin.wait()
        for _ in range(7):
            await trio.lowlevel.checkpoint()
        events.append("done")
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(work)
        await idle()
        assert not events
        begin.set()
        await idle()
        assert events == ["done"] * 5
        nursery.cancel_scope.cancel()


async def test_tasks_woken_by_woken_tasks_are_waited_for() -> None:
    first, second, events = trio.Event(), trio.Event(), []

    async def hand_on() -> None:
        await first.wait()
        second.set()

    async def end() -> None:
        await second.wait()
        events.append("done")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end)
        nursery.start_soon(hand_on)
        await idle()
        first.set()
        await idle()
        assert events == ["done"]


async def test_a_wait_with_permanently_busy_tasks_can_be_cancelled() -> None:
    async def busy() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(busy)
        with trio.CancelScope() as scope:
            scope.cancel()
            await idle()
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
