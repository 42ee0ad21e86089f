"""Calls between two processes: their order, their answers, and the end of one of both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.workers.link import Link, LinkLostError, Served


async def linked(served: Served, use: Callable[[Link], Awaitable[None]]) -> None:
    """Have `use` call what the other end serves."""
    one, other = trio.socket.socketpair()
    asking, answering = Link(trio.SocketStream(one), {}), Link(trio.SocketStream(other), served)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asking.run)
        nursery.start_soon(answering.run)
        await use(asking)
        nursery.cancel_scope.cancel()


def test_a_call_is_answered_or_refused() -> None:
    def refuse() -> None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")

    async def use(link: Link) -> None:
        assert await link.call("add", 2, 3) == 5
        assert await link.call("later", "x") == "x again"
        with pytest.raises(KafkaError) as refused:
            await link.call("refuse")
        assert (refused.value.code, refused.value.message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")

    async def later(text: str) -> str:
        await trio.lowlevel.checkpoint()
        return f"{text} again"

    served: Served = {"add": lambda a, b: a + b, "later": later, "refuse": refuse}
    trio.run(linked, served, use)


class NotEnoughError(Exception):
    """Cannot be made again from its arguments: pickle does not know that."""

    def __init__(self, wanted: int, found: int) -> None:
        super().__init__(f"{wanted} wanted, {found} found")


class HoldingError(Exception):
    """Refers to what cannot be pickled."""


def test_an_error_that_cannot_be_sent_is_told_in_words_and_the_link_goes_on() -> None:
    def not_enough() -> None:
        raise NotEnoughError(3, 2)

    async def holding() -> None:
        raise HoldingError(trio.Event(), lambda: None)

    async def use(link: Link) -> None:
        with pytest.raises(RuntimeError, match="NotEnoughError: 3 wanted, 2 found"):
            await link.call("not_enough")
        with pytest.raises(RuntimeError, match="HoldingError: "):
            await link.call("holding")
        assert await link.call("size", "there") == 5

    served: Served = {"not_enough": not_enough, "holding": holding, "size": len}
    trio.run(linked, served, use)


def test_what_takes_long_holds_nobody_up_and_the_rest_is_done_in_order() -> None:
    done: list[int] = []
    go_on = trio.Event()

    async def use(link: Link) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.call, "wait")
            for number in range(1_000):
                link.tell("note", number)
            assert await link.call("how_many") == 1_000
            go_on.set()

    served: Served = {"wait": go_on.wait, "note": done.append, "how_many": lambda: len(done)}
    trio.run(linked, served, use)
    assert done == list(range(1_000))


def test_whoever_waits_is_told_when_the_other_process_dies() -> None:
    async def use() -> None:
        one, other = trio.socket.socketpair()
        link = Link(trio.SocketStream(one), {})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            nursery.start_soon(_close_when_asked, other)
            with pytest.raises(LinkLostError):
                await link.call("anything")
            await link.lost.wait()
            with pytest.raises(LinkLostError):
                await link.call("anything")

    trio.run(use)


async def _close_when_asked(other: trio.socket.SocketType) -> None:
    await other.recv(1)
    other.close()


def test_a_large_message_comes_in_pieces() -> None:
    async def use(link: Link) -> None:
        assert await link.call("size", bytes(3 << 20)) == 3 << 20

    trio.run(linked, {"size": len}, use)
