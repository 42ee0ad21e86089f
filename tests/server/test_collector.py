"""When Python's collector looks at old objects: not of its own accord, but when memory has changed by much, and now and then."""

from __future__ import annotations

import gc

import pytest
import trio
import trio.testing

from ottla.server import collector
from ottla.server.collector import CHANGED_BLOCKS, LOOK_S, NOW_AND_THEN_S, Collector
from support.old_garbage import OldGarbage


class Blocks:
    """How many blocks of memory are said to be taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
        self.taken = taken
        monkeypatch.setattr(collector, "getallocatedblocks", lambda: self.taken)


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
async def test_old_garbage_goes_when_memory_has_changed_by_much(
    moves: tuple[int, ...], is_collected: bool, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage, blocks = OldGarbage(), Blocks(monkeypatch, 2 * CHANGED_BLOCKS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Collector().run)
        await trio.testing.wait_all_tasks_blocked()
        for move in moves:
            blocks.taken += move
            await trio.sleep(LOOK_S)
        await trio.sleep(LOOK_S)
        assert garbage.is_there() != is_collected
        nursery.cancel_scope.cancel()


async def test_of_much_memory_a_quarter_must_have_come(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage, blocks = OldGarbage(), Blocks(monkeypatch, 8 * CHANGED_BLOCKS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Collector().run)
        await trio.testing.wait_all_tasks_blocked()
        for is_there in (True, False):
            blocks.taken += CHANGED_BLOCKS + 1
            await trio.sleep(2 * LOOK_S)
            assert garbage.is_there() == is_there
        nursery.cancel_scope.cancel()


async def test_old_garbage_goes_after_ten_minutes_unless_it_is_put_off(autojump_clock: trio.testing.MockClock) -> None:
    garbage, of_broker = OldGarbage(), Collector()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(of_broker.run)
        with of_broker.putting_off():
            await trio.sleep(NOW_AND_THEN_S + 2 * LOOK_S)
            assert garbage.is_there()
        await trio.sleep(2 * LOOK_S)
        assert not garbage.is_there()
        nursery.cancel_scope.cancel()


async def test_python_has_its_collector_back_afterwards(autojump_clock: trio.testing.MockClock) -> None:
    before, of_broker = gc.get_threshold(), Collector()
    with trio.move_on_after(LOOK_S):
        await of_broker.run()
    assert gc.get_threshold() == before
    assert not of_broker.is_ours


def test_a_broker_in_another_program_leaves_the_collector_alone() -> None:
    garbage, of_broker = OldGarbage(), Collector()
    frozen = gc.get_freeze_count()
    of_broker.partitions_made(10_000)
    assert gc.get_freeze_count() == frozen
    assert garbage.is_there()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError(), OSError("no memory")])
async def test_it_goes_on_where_no_thread_can_be_had(
    error: Exception, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise error

    monkeypatch.setattr(collector, "give_back", refuse)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Collector().run)
        for _ in range(2):
            garbage = OldGarbage()
            await trio.sleep(NOW_AND_THEN_S + 2 * LOOK_S)
            assert not garbage.is_there()
        nursery.cancel_scope.cancel()
