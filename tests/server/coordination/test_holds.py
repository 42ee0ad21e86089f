"""Responses that are held back until a bell rings: when each is sent, and which."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from ottla.server.coordination.bell import Bell
from ottla.server.coordination.holds import TICK_MS, HeldResponse, HeldResponses


class Client:
    """A connection that notes when its response is sent."""

    def __init__(self, others: HeldResponses, bell: Bell, for_ms: int) -> None:
        self.held = HeldResponse("quiet", others, bell, for_ms, lambda: "changed")
        self.sent: list[tuple[int, str]] = []
        self.held.begin(self._send)

    def _send(self) -> None:
        assert self.held.is_due
        self.held.leave()
        self.sent.append((round(trio.current_time() * 1000), self.held.result()))


@asynccontextmanager
async def holding() -> AsyncIterator[HeldResponses]:
    others = HeldResponses()
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
        left, rung = Client(others, bell, 100), Client(others, bell, 100)
        left.held.leave()
        bell.ring()
        rung.held.leave()
        await trio.sleep(1)
        assert (left.sent, rung.sent, len(bell)) == ([], [], 0)
