"""The door between two processes: more clients than the kernel keeps, and an end that is closed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from ottla.server.network.transport import PeerGoneError
from ottla.server.workers.forwarding import Door

CROWD = 1_000
"""More than any `net.unix.max_dgram_qlen` one meets."""


@contextmanager
def pair() -> Iterator[tuple[Door, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        yield Door(ours), theirs


def test_a_crowd_waits_for_room_and_holds_nobody_up() -> None:
    async def run() -> None:
        with pair() as (door, other), socket.socket() as given:
            async with trio.open_nursery() as nursery:
                for number in range(CROWD):
                    nursery.start_soon(door.give, b"%d" % number, given)
                # Who held the thread for room would not let this go on.
                await trio.testing.wait_all_tasks_blocked()
                come: list[int] = []
                other.setblocking(False)
                while len(come) < CROWD:
                    try:
                        facts, fds, _, _ = socket.recv_fds(other, 64, 1)
                    except BlockingIOError:
                        await trio.lowlevel.wait_readable(other)
                        continue
                    come.append(int(facts))
                    for each in fds:
                        socket.close(each)
            assert sorted(come) == [*range(CROWD)]

    trio.run(run)


def test_who_waits_for_room_hears_that_the_other_end_has_gone() -> None:
    async def run() -> None:
        with pair() as (door, other), socket.socket() as given:

            async def given_in_vain() -> None:
                with pytest.raises(PeerGoneError):
                    while True:
                        await door.give(b"", given)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(given_in_vain)
                await trio.testing.wait_all_tasks_blocked()
                other.close()

    trio.run(run)


def test_who_is_cancelled_while_waiting_leaves_the_door_to_others() -> None:
    async def run() -> None:
        with pair() as (door, other), socket.socket() as given:

            async def give_on_and_on() -> None:
                while True:
                    await door.give(b"early", given)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(give_on_and_on)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            facts, fds, _, _ = socket.recv_fds(other, 64, 1)
            socket.close(fds[0])
            await door.give(b"late", given)
            assert facts == b"early"

    trio.run(run)
