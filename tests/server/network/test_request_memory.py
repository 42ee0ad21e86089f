"""Memory for frames: every waiting connection gets its turn, whatever the others do, and all memory is returned."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from ottla.server.network.request_memory import LOOK_EVERY_S, SHRINK_AT_ONCE, STANDS_STILL_S, RequestMemory
from ottla.server.runtime import time_slices
from support.sizes import size


class Holder:
    """A connection that the test controls."""

    def __init__(self, memory: RequestMemory, address: str = "a", *, is_receiving: bool = True) -> None:
        self.address, self.held_bytes = address, 0
        self.is_receiving = is_receiving
        self.kept_bytes = 0
        """The part that is reserved for later."""
        self.given_up: list[str] = []
        self._memory = memory

    async def take(self, size_bytes: int) -> None:
        await self._memory.take(self, size_bytes)

    def give_back(self) -> None:
        self._memory.give_back(self, self.held_bytes)

    def shrink(self) -> None:
        self._memory.give_back(self, self.kept_bytes)
        self.kept_bytes = 0

    def give_up(self, reason: str) -> None:
        self.given_up.append(reason)
        self.give_back()


async def has_at_once(holder: Holder, size_bytes: int) -> bool:
    before_bytes = holder.held_bytes
    with trio.move_on_after(0):
        await holder.take(size_bytes)
    return holder.held_bytes == before_bytes + size_bytes


async def test_one_address_may_use_half_of_the_memory() -> None:
    memory = RequestMemory(100)
    first, second, other = Holder(memory), Holder(memory), Holder(memory, "b")
    assert memory.take_now(first, 30) and memory.take_now(second, 20)
    assert not memory.take_now(second, 1)
    assert memory.take_now(other, 50)


async def test_a_waiting_address_over_its_share_is_skipped() -> None:
    memory = RequestMemory(100)
    first, beyond, waits, other = Holder(memory), Holder(memory), Holder(memory), Holder(memory, "b")
    await first.take(50)
    await beyond.take(10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits.take, 10)
        await trio.testing.wait_all_tasks_blocked()
        assert memory.waiting == 1
        assert await has_at_once(other, 40)
        nursery.cancel_scope.cancel()
    assert memory.waiting == 0 and not memory.is_short


async def test_one_frame_may_exceed_the_limit_and_the_next_follows() -> None:
    """Each holds a part of its frame and needs the rest: without this rule they would wait for ever."""
    memory = RequestMemory(100)
    holders = [Holder(memory, address) for address in "abcd"]
    for holder in holders:
        await holder.take(25)
    done: list[str] = []

    async def finish(holder: Holder) -> None:
        for _ in range(3):
            await holder.take(25)
        assert memory.used_bytes <= 100 + 75
        done.append(holder.address)
        holder.give_back()

    async with trio.open_nursery() as nursery:
        for holder in holders:
            nursery.start_soon(finish, holder)
    assert sorted(done) == ["a", "b", "c", "d"]
    assert memory.used_bytes == 0 and not memory.is_short


async def test_addresses_take_turns() -> None:
    memory, order = RequestMemory(100), []
    full, beyond = Holder(memory, "x"), Holder(memory, "y")
    await full.take(50)
    await beyond.take(50)
    await Holder(memory, "z").take(10)

    async def wait(address: str) -> None:
        await Holder(memory, address).take(1)
        order.append(address)

    async with trio.open_nursery() as nursery:
        for address in "aaaab":
            nursery.start_soon(wait, address)
            await trio.testing.wait_all_tasks_blocked()
        assert order == []
        memory.give_back(full, 12)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(order) == ["a", "a", "b"]  # two fit, and one goes beyond the limit
        full.give_back()
    assert len(order) == 5


async def test_a_holder_of_spare_memory_returns_it_on_demand() -> None:
    memory = RequestMemory(100)
    idle, other = Holder(memory, "a"), Holder(memory, "b")
    await idle.take(50)
    idle.kept_bytes = 50
    await other.take(50)
    assert await has_at_once(Holder(memory, "c"), 40)
    assert idle.held_bytes == 0


async def test_closing_wakes_waiting_holders() -> None:
    memory = RequestMemory(100)
    first, beyond, waits = Holder(memory), Holder(memory), Holder(memory)
    await first.take(50)
    await beyond.take(50)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await waits.take(1)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        memory.stop_waiting(waits)
    assert memory.waiting == 0 and waits.held_bytes == 0


async def test_a_stalled_connection_yields_its_place_to_a_waiting_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    memory = RequestMemory(100)
    still = [Holder(memory, address) for address in "ab"]
    works = Holder(memory, "c", is_receiving=False)
    for holder in still:
        await holder.take(40)
    await works.take(20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        await trio.sleep(3600)
        assert not any(holder.given_up for holder in still)  # nothing waits
        beyond, waits = Holder(memory, "d"), Holder(memory, "e")
        await beyond.take(30)
        began_s = trio.current_time()
        await waits.take(30)
        assert trio.current_time() - began_s <= STANDS_STILL_S
        # One was enough.
        assert [len(holder.given_up) for holder in [*still, works]] == [1, 0, 0]
        nursery.cancel_scope.cancel()


async def test_a_connection_beyond_the_limit_must_not_be_slow(autojump_clock: trio.testing.MockClock) -> None:
    """The connection sends a little every second; the others wait for all of its frame."""
    memory = RequestMemory(100)
    works = [Holder(memory, address, is_receiving=False) for address in "ab"]
    for holder in works:
        await holder.take(50)
    slow, waits = Holder(memory, "c"), Holder(memory, "d")

    async def dawdle() -> None:
        while not slow.given_up:
            await slow.take(1)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        nursery.start_soon(dawdle)
        await trio.sleep(0.5)
        began_s = trio.current_time()
        await waits.take(30)
        assert trio.current_time() - began_s <= STANDS_STILL_S + 2
        nursery.cancel_scope.cancel()
    assert slow.given_up


@pytest.mark.parametrize("seed", range(size(3, 20)))
async def test_every_connection_is_served_and_all_memory_returned(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    rng = random.Random(seed)
    memory = RequestMemory(1_000)
    frame_max_bytes, served, left = 400, 0, 0

    async def connection(address: str, kind: str) -> None:
        nonlocal served, left
        holder = Holder(memory, address)
        await trio.sleep(rng.uniform(0, 30))
        try:
            for _ in range(rng.randint(1, 8)):
                await holder.take(50)
                assert memory.used_bytes <= memory.limit_bytes + frame_max_bytes
                if kind == "stands still":
                    await trio.sleep_forever()
                await trio.sleep(rng.uniform(0, 0.5))
                if kind == "leaves" and rng.random() < 0.3:
                    break
            holder.is_receiving = False
            await trio.sleep(rng.uniform(0, 1))
            served += 1
        finally:
            left += 1
            holder.give_back()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        kinds = [rng.choice(["sends", "leaves", "stands still"]) for _ in range(100)]
        for kind in kinds:
            nursery.start_soon(connection, rng.choice("aaab"), kind)
        while served < len(kinds) - kinds.count("stands still"):
            await trio.sleep(1)
            assert trio.current_time() < 3_600
        nursery.cancel_scope.cancel()
    assert left == len(kinds) and memory.used_bytes == 0 and memory.waiting == 0


async def test_thousands_of_spare_buffers_are_freed_in_time_slices(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    memory = RequestMemory(2000)
    idle = [Holder(memory, f"{number}") for number in range(1000)]
    for each in idle:
        await each.take(2)
        each.kept_bytes = 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        await trio.testing.wait_all_tasks_blocked()
        big, next_one = Holder(memory, "big"), Holder(memory, "next")
        await big.take(1)
        assert sum(each.held_bytes > 0 for each in idle) >= 1000 - SHRINK_AT_ONCE
        with trio.fail_after(LOOK_EVERY_S / 2):
            for _ in range(15):
                await next_one.take(100)
        nursery.cancel_scope.cancel()
