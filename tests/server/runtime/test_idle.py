"""A moment in which no task has anything to do."""

from __future__ import annotations

import trio

from ottla.server.control.clock import idle


async def test_whoever_was_woken_has_gone_on_as_far_as_it_can() -> None:
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


async def test_what_one_wakes_in_the_other_is_waited_for() -> None:
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


async def test_a_wait_among_those_who_never_rest_can_be_given_up() -> None:
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
