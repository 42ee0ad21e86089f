"""The process of one node: started again when it dies, after pauses that grow, and never twice at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from ottla.server.runtime.nursery import Tasks
from ottla.server.workers.keeper import HEALTHY_S, PAUSES_S, Keeper
from ottla.server.workers.link import Link, LinkLostError


class FakeProcess:
    """Dies when it is told to, killed, or at once."""

    def __init__(self, *, obeys: bool = True) -> None:
        self.link = cast("Link", self)
        self._obeys = obeys
        self._dead = trio.Event()

    def tell(self, name: str) -> None:
        assert name == "stop"
        if self._obeys:
            self._dead.set()

    @property
    def is_dead(self) -> bool:
        return self._dead.is_set()

    def die(self) -> None:
        self._dead.set()

    def kill(self) -> None:
        self._dead.set()

    def what_was(self) -> str:
        return "the process of node 7 has ended with -9, and"

    async def ended(self) -> None:
        await self._dead.wait()


class Starts:
    """What `begin` does each time."""

    def __init__(self, *, obeys: bool = True) -> None:
        self.processes: list[FakeProcess] = []
        self.at_s: list[float] = []
        self.refuses = False
        self._obeys = obeys

    async def begin(self) -> FakeProcess:
        await trio.lowlevel.checkpoint()
        self.at_s.append(trio.current_time())
        if self.refuses:
            raise LinkLostError("the process of node 7 (pid 1) has not come up")
        self.processes.append(FakeProcess(obeys=self._obeys))
        return self.processes[-1]


def kept(use: Callable[[Keeper, Starts], Awaitable[None]], *, obeys: bool = True) -> None:
    async def run() -> None:
        starts, tasks = Starts(obeys=obeys), Tasks()
        async with trio.open_nursery() as tasks.nursery:
            await use(Keeper(starts.begin, tasks), starts)
            tasks.nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(autojump_threshold=0))


def test_one_that_dies_again_and_again_is_started_after_pauses_that_grow(caplog: pytest.LogCaptureFixture) -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        await keeper.start()
        for _ in range(len(PAUSES_S) + 1):
            starts.processes[-1].die()
            await wait_all_tasks_blocked()
            await trio.sleep(PAUSES_S[-1] + 1)
        begun = starts.at_s
        assert len(begun) == len(PAUSES_S) + 2

    kept(use)
    pauses = [line.rpartition("started again ")[2] for line in caplog.messages]
    assert pauses == ["at once", "in 1 s", "in 2 s", "in 4 s", "in 8 s", "in 16 s", "in 30 s", "in 30 s"]
    assert caplog.messages[0].startswith("the process of node 7 has ended with -9, and is started again")


def test_one_that_does_not_come_up_is_tried_likewise() -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        await keeper.start()
        starts.refuses = True
        starts.processes[0].die()
        await trio.sleep(200)
        starts.refuses = False
        first, *again = starts.at_s
        assert [round(at - first) for at in again] == [0, 1, 3, 7, 15, 31, 61, 91, 121, 151, 181]
        await trio.sleep(30)
        assert not starts.processes[-1].is_dead and len(starts.processes) == 2

    kept(use)


def test_one_that_has_served_for_a_while_is_started_at_once() -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        await keeper.start()
        for _ in range(3):
            await trio.sleep(HEALTHY_S)
            died_s = trio.current_time()
            starts.processes[-1].die()
            await wait_all_tasks_blocked()
            assert starts.at_s[-1] == died_s

    kept(use)


def test_one_that_is_stopped_in_the_pause_is_not_started_and_its_next_start_is_the_only_one() -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        await keeper.start()
        starts.refuses = True
        starts.processes[0].die()
        await trio.sleep(4)
        await keeper.stop()
        tried = len(starts.at_s)
        await trio.sleep(100)
        assert len(starts.at_s) == tried
        starts.refuses = False
        await keeper.start()
        await trio.sleep(100)
        assert [each.is_dead for each in starts.processes] == [True, False]

    kept(use)


def test_one_that_does_not_stop_is_killed() -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        await keeper.start()
        await keeper.stop()
        assert starts.processes[0].is_dead and len(starts.processes) == 1

    kept(use, obeys=False)


def test_one_that_never_was_is_stopped() -> None:
    async def use(keeper: Keeper, starts: Starts) -> None:
        starts.refuses = True
        with pytest.raises(OSError, match="has not come up"):
            await keeper.start()
        await keeper.stop()
        assert len(starts.at_s) == 1

    kept(use)
