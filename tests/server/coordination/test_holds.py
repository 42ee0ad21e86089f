"""Responses that are held back until a bell rings: when each is sent, and which."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.server.coordination.bell import Bell
from ottla.server.coordination.holds import TICK_MS, HeldResponse
from ottla.server.runtime.deferrals import ENDED_IN_PASS_MAX, Deferrals
from ottla.server.runtime.time_slices import passes


class Client:
    """A connection that notes when its response is sent."""

    def __init__(self, others: Deferrals, bell: Bell, for_ms: int) -> None:
        self.held = HeldResponse("quiet", others, bell, trio.current_time() * 1000 + for_ms)
        self.sent: list[tuple[int, str]] = []
        self.sent_in = 0
        """Pass of the scheduler."""
        self.held.begin(self.send)

    def send(self) -> None:
        assert self.held.is_due
        self.held.leave()
        self.sent_in = passes()
        self.sent.append((round(trio.current_time() * 1000), "changed" if self.held.is_outdated else "quiet"))


@asynccontextmanager
async def holding() -> AsyncIterator[Deferrals]:
    others = Deferrals(TICK_MS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others.run)
        await trio.testing.wait_all_tasks_blocked()
        yield others
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("for_ms", "sent_at_ms"),
    [(1, 10), (TICK_MS, TICK_MS), (401, 400), (2_389, 2_350), (2_391, 2_400)],
)
async def test_a_response_is_sent_at_its_deadline_or_a_tick_earlier(
    for_ms: int, sent_at_ms: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with holding() as others:
        await trio.sleep(0.01)
        client = Client(others, Bell(), for_ms)
        await trio.sleep(10)
        assert client.sent == [(sent_at_ms, "quiet")]


async def test_a_bell_ends_the_waits_of_its_listeners_once(autojump_clock: trio.testing.MockClock) -> None:
    async with holding() as others:
        bell, other = Bell(), Bell()
        first, second, third = Client(others, bell, 1_000), Client(others, bell, 500), Client(others, other, 2_000)
        await trio.sleep(0.2)
        bell.ring()
        bell.ring()
        await trio.sleep(10)
        assert (first.sent, second.sent) == ([(200, "changed")], [(200, "changed")])
        assert third.sent == [(2_000, "quiet")]
        assert (len(bell), len(other)) == (0, 0)


async def test_a_wait_that_its_client_has_ended_is_not_ended_again(autojump_clock: trio.testing.MockClock) -> None:
    async with holding() as others:
        bell = Bell()
        left, *rung = [Client(others, bell, 100) for _ in range(ENDED_IN_PASS_MAX + 3)]
        left.held.leave()
        bell.ring()
        for client in rung:
            client.held.leave()
        await trio.sleep(1)
        assert [len(client.sent) for client in [left, *rung]] == [0] + [1] * ENDED_IN_PASS_MAX + [0, 0]
        assert len(bell) == 0


async def test_one_change_ends_few_waits_in_a_pass_of_the_scheduler(autojump_clock: trio.testing.MockClock) -> None:
    async with holding() as others:
        for _ in range(2):
            bell = Bell()
            clients = [Client(others, bell, 2_000) for _ in range(10 * ENDED_IN_PASS_MAX)]
            bell.ring()
            assert sum(len(client.sent) for client in clients) == ENDED_IN_PASS_MAX
            await trio.sleep(0.1)
            assert [len(client.sent) for client in clients] == [1] * len(clients)
            assert set(Counter(client.sent_in for client in clients).values()) == {ENDED_IN_PASS_MAX}


async def test_ended_responses_keep_neither_their_clients_nor_memory(autojump_clock: trio.testing.MockClock) -> None:
    """Ten thousand clients that leave before the deadline, as those that disconnect do."""
    async with holding() as others:
        bell = Bell()
        clients = [Client(others, bell, 2_000) for _ in range(10_000)]
        left: list[Callable[[], object]] = [weakref.ref(clients[0]), weakref.ref(clients[0].held)]
        before = len(gc.get_objects())
        while clients:
            clients.pop().held.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert ([each() for each in left], len(bell), others._due) == ([None, None], 0, {})
        assert len(gc.get_objects()) - before < -20_000  # at least the client and its response, each


async def test_a_held_response_takes_few_bytes(autojump_clock: trio.testing.MockClock) -> None:
    async with holding() as others:
        bell, client = Bell(), Client(others, Bell(), 1)
        tracemalloc.start()
        begun_bytes, _ = tracemalloc.get_traced_memory()
        for _ in range(10_000):
            HeldResponse("quiet", others, bell, 2_000).begin(client.send)
        taken_bytes = tracemalloc.get_traced_memory()[0] - begun_bytes
        tracemalloc.stop()
        assert taken_bytes / 10_000 < 500


async def test_the_task_sleeps_while_nothing_is_due(autojump_clock: trio.testing.MockClock) -> None:
    """The task is woken once for all responses of a tick, and once for those that have ended before their deadline."""
    wakes = 0

    class Wakes(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal wakes
            wakes += task.name.endswith("Deferrals.run")

    async with holding() as others:
        trio.lowlevel.add_instrument(instrument := Wakes())
        bell = Bell()
        clients = [Client(others, bell, 1_000 + number) for number in range(ENDED_IN_PASS_MAX)]
        await trio.sleep(10)
        assert {each.sent[0] for each in clients} == {(1_000, "quiet")}
        for _ in range(10):
            client = Client(others, bell, 1_000)
            await trio.sleep(0.05)
            client.held.leave()
        trio.lowlevel.remove_instrument(instrument)
        assert wakes <= 4
