"""Full collections of Python's collector: not by itself, but after large changes of memory, and from time to time."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import trio
import trio.testing

from ottla.server.runtime import gc_policy
from ottla.server.runtime.gc_policy import (
    CHANGED_BLOCKS,
    LITTLE_BLOCKS,
    LOOK_S,
    NOW_AND_THEN_S,
    PARTITIONS_KEPT_AT_ONCE,
    QUIET_PASSES,
    QUIET_S,
    GcPolicy,
)
from support.left_behind import leave_alone
from support.old_garbage import OldGarbage


@pytest.fixture(scope="module", autouse=True)
def _older_left_alone() -> None:
    """Freeze older objects: each of these tests does full collections, which need not cover objects of earlier tests."""
    leave_alone()


@pytest.fixture(autouse=True)
def threads_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run threads' work at once: the clock that jumps would not wait for them."""

    async def run_at_once(function: Callable[[], None]) -> None:
        function()

    monkeypatch.setattr(trio.to_thread, "run_sync", run_at_once)


@pytest.fixture(autouse=True)
def first_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the ended runs of brokers after the test: later tests must not count them."""
    monkeypatch.setattr(GcPolicy, "a_run_has_ended", False)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after minutes instead of hours: clients that never rest make every second of them long."""
    monkeypatch.setattr(gc_policy, "NOW_AND_THEN_S", 20.0)
    monkeypatch.setattr(gc_policy, "AT_LAST_S", 120.0)


FIRST_LOOK_S = 2 * LOOK_S
"""Seconds until the first look is over."""


class Blocks:
    """A fake number of allocated memory blocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
        self.taken = taken
        monkeypatch.setattr(gc_policy, "getallocatedblocks", lambda: self.taken)


@pytest.mark.parametrize(
    "moves, is_collected",
    [
        ((0,), False),
        ((CHANGED_BLOCKS,), False),
        ((CHANGED_BLOCKS + 1,), True),
        ((CHANGED_BLOCKS // 2, CHANGED_BLOCKS // 2 + 1), True),
        ((-CHANGED_BLOCKS // 2, CHANGED_BLOCKS // 2), False),
        ((-CHANGED_BLOCKS - 1,), True),
    ],
)
async def test_old_garbage_is_collected_after_a_large_change_of_memory(
    moves: tuple[int, ...], is_collected: bool, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = Blocks(monkeypatch, 2 * CHANGED_BLOCKS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(GcPolicy().run)
        await trio.sleep(FIRST_LOOK_S)
        garbage = OldGarbage()
        for move in moves:
            blocks.taken += move
            await trio.sleep(LOOK_S)
        await trio.sleep(LOOK_S)
        assert garbage.is_there() != is_collected
        nursery.cancel_scope.cancel()


async def test_a_large_heap_must_grow_by_a_quarter(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = Blocks(monkeypatch, 8 * CHANGED_BLOCKS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(GcPolicy().run)
        await trio.sleep(FIRST_LOOK_S)
        garbage = OldGarbage()
        for is_there in (True, False):
            blocks.taken += CHANGED_BLOCKS + 1
            await trio.sleep(2 * LOOK_S)
            assert garbage.is_there() == is_there
        nursery.cancel_scope.cancel()


async def test_garbage_of_an_earlier_run_is_freed_by_the_first_check(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[float] = []
    monkeypatch.setattr(gc_policy, "give_back", lambda: given_back.append(trio.current_time()))
    for earlier_lives in range(3):
        garbage = OldGarbage()
        with trio.move_on_after(FIRST_LOOK_S):
            await GcPolicy().run()
        assert garbage.is_there() == (earlier_lives == 0)
        assert len(given_back) == earlier_lives


async def test_old_garbage_is_collected_after_ten_minutes_unless_postponed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    garbage, of_broker = OldGarbage(), GcPolicy()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(of_broker.run)
        with of_broker.putting_off():
            await trio.sleep(NOW_AND_THEN_S + 2 * LOOK_S)
            assert garbage.is_there()
        await trio.sleep(2 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


async def ask_and_ask(every_s: float) -> None:
    """Keep the broker busy with clients."""
    while True:
        await trio.sleep(every_s)


@pytest.mark.usefixtures("soon")
async def test_a_large_collection_runs_when_no_client_waits(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage, clients = OldGarbage(), trio.CancelScope()
    Blocks(monkeypatch, 2 * LITTLE_BLOCKS)

    async def ask() -> None:
        with clients:
            await ask_and_ask(QUIET_S / QUIET_PASSES / 2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(GcPolicy().run)
        await trio.sleep(gc_policy.NOW_AND_THEN_S + 4 * LOOK_S)
        assert garbage.is_there()
        clients.cancel()
        await trio.sleep(2 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kept_blocks", [0, 10 * LITTLE_BLOCKS])
async def test_a_relatively_small_collection_runs_even_with_busy_clients(
    kept_blocks: int, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, of_broker = Blocks(monkeypatch, kept_blocks), GcPolicy()
    of_broker.keep()
    garbage = OldGarbage()
    blocks.taken += LITTLE_BLOCKS
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_ask, QUIET_S / QUIET_PASSES / 2)
        nursery.start_soon(of_broker.run)
        await trio.sleep(gc_policy.NOW_AND_THEN_S + LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("soon")
async def test_memory_allocated_and_freed_between_two_collections_is_searched(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_policy, "NOW_AND_THEN_S", 10_000.0)
    garbage, blocks = OldGarbage(), Blocks(monkeypatch, LITTLE_BLOCKS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_and_ask, QUIET_S / QUIET_PASSES / 2)
        nursery.start_soon(GcPolicy().run)
        await trio.testing.wait_all_tasks_blocked()
        blocks.taken += 2 * CHANGED_BLOCKS
        await trio.sleep(2 * LOOK_S)
        assert garbage.is_there()
        blocks.taken -= 2 * CHANGED_BLOCKS
        await trio.sleep(2 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("why", ["clients ask on and on", "large requests follow one another without end"])
async def test_a_permanently_busy_broker_is_finally_collected(
    why: str, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage, of_broker = OldGarbage(), GcPolicy()
    Blocks(monkeypatch, 2 * LITTLE_BLOCKS)
    async with trio.open_nursery() as nursery:
        if why == "clients ask on and on":
            nursery.start_soon(ask_and_ask, QUIET_S / QUIET_PASSES / 2)
        else:
            of_broker.put_off()
        nursery.start_soon(of_broker.run)
        await trio.sleep(gc_policy.AT_LAST_S - 2 * LOOK_S)
        assert garbage.is_there()
        await trio.sleep(4 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


async def test_python_has_its_collector_back_afterwards(autojump_clock: trio.testing.MockClock) -> None:
    before, of_broker = gc.get_threshold(), GcPolicy()
    with trio.move_on_after(LOOK_S):
        await of_broker.run()
    assert gc.get_threshold() == before
    assert not of_broker.is_ours


@pytest.mark.parametrize("is_ours", [True, False])
def test_new_objects_are_looked_at_only_in_the_brokers_own_process(is_ours: bool) -> None:
    policy = GcPolicy()
    policy.is_ours = is_ours
    looked: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            looked.append(info["generation"])

    gc.disable()
    gc.callbacks.append(note)
    try:
        policy.look_at_new()
    finally:
        gc.callbacks.remove(note)
        gc.enable()
    assert looked == ([1] if is_ours else [])


def test_a_broker_inside_another_program_leaves_the_collector_alone() -> None:
    garbage, of_broker = OldGarbage(), GcPolicy()
    young: list[list[int]] = [[] for _ in range(1_000)]
    frozen = gc.get_freeze_count()
    of_broker.partitions_made(10_000)
    # Objects of other tests may be freed during the test: then the count falls. If `young` were kept, it would rise.
    assert gc.get_freeze_count() < frozen + len(young) // 2
    assert garbage.is_there()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError(), OSError("no memory")])
async def test_the_collector_continues_without_an_available_thread(
    error: Exception, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr(gc_policy, "give_back", refuse)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(GcPolicy().run)
        for _ in range(2):
            garbage = OldGarbage()
            await trio.sleep(NOW_AND_THEN_S + 2 * LOOK_S)
            assert not garbage.is_there()
        nursery.cancel_scope.cancel()


async def test_kept_garbage_of_a_run_is_collected_before_the_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    of_broker, garbage = GcPolicy(), OldGarbage()
    with trio.move_on_after(LOOK_S):
        of_broker.keep()
        gc.collect()
        assert garbage.is_there()
        await of_broker.run()
    gc.collect()
    assert garbage.is_there()
    GcPolicy().take_over()
    assert not garbage.is_there()
    assert gc.get_freeze_count() > 1_000


def test_without_an_ended_run_nothing_is_inherited() -> None:
    garbage = OldGarbage()
    GcPolicy().take_over()
    assert garbage.is_there()


async def test_created_and_deleted_partitions_keep_no_objects_frozen(autojump_clock: trio.testing.MockClock) -> None:
    of_broker = GcPolicy()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(of_broker.run)
        await trio.sleep(1)
        garbage, half = OldGarbage(), PARTITIONS_KEPT_AT_ONCE // 2
        for _ in range(5):
            of_broker.partitions_made(half)
            of_broker.partitions_gone(half)
        of_broker.partitions_made(half)
        gc.collect()
        assert not garbage.is_there()
        garbage = OldGarbage()
        of_broker.partitions_made(half)  # now PARTITIONS_KEPT_AT_ONCE more exist
        gc.collect()
        assert garbage.is_there()
        nursery.cancel_scope.cancel()
