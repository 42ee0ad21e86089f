"""Small requests are answered where they arrive, and nobody can tell: the order, who waits for whom, and what ends a connection."""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
import select
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
import trio
import trio.testing

from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request, encode_request, encode_response, parse_request, parse_response
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.server.config.broker_config import BrokerConfig
from ottla.server.network import arrivals
from ottla.server.network.arrivals import AT_ONCE, TOGETHER, Arrivals
from ottla.server.network.connection import Connection
from ottla.server.network.desk import Again, AgainMaker, Handler, StraightHandler
from ottla.server.network.frames import INITIAL_BUFFER_BYTES
from ottla.server.network.listener import Listener
from ottla.server.network.shares import Shares
from ottla.server.network.straight import ALONE_REQUESTS, LOOKS, PAUSE_REQUESTS, REST_REQUESTS, UNLIKE_REQUESTS
from ottla.server.network.transport import Part, PlainTransport
from ottla.server.runtime import turns
from ottla.server.runtime.collector import Collector
from support.sizes import size

pytestmark = pytest.mark.skipif(not arrivals.IS_KNOWN, reason="needs epoll")

API, OTHER = APIS[10], APIS[12]
VERSION = 1
LISTENER = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)


def request(number: int, key: str = "g") -> bytes:
    return encode_request(API, VERSION, number, "c", FindCoordinatorRequest(key=key))


class Desk:
    """Echoes the key that it is asked for, and notes who was asked: `straight`, or the handler."""

    node_id = 0
    login = None

    def __init__(self) -> None:
        self.is_open = True
        self.asked: list[tuple[str, str]] = []
        """Which way, and for what."""
        self.handlers: Any = MappingProxyType[int, Handler]({API.key: self.handle})
        self.present: dict[int, StraightHandler] = {API.key: self.answer_at_once}
        self.straight: MappingProxyType[int, StraightHandler] = MappingProxyType(self.present)
        self.again: dict[int, AgainMaker] = {}
        self.meanwhile: Callable[[str], None] = lambda key: None
        """Done in the midst of every request."""
        self.may_answer = trio.Event()
        """Handlers wait for it if they are asked for `later`."""

    async def loaded(self, key: int) -> Handler:
        raise KeyError(key)

    def context_for(self, client: Any) -> Any:
        return client

    async def handle(self, client: Any, request: Request) -> FindCoordinatorResponse:
        key = request.body.key
        self.asked.append(("handler", key))
        self.meanwhile(key)
        if key.startswith("later"):
            await self.may_answer.wait()
            client.turn.begin()
        return FindCoordinatorResponse(host=key)

    def answer_at_once(self, client: Any, request: Request) -> FindCoordinatorResponse | None:
        key = request.body.key
        self.asked.append(("straight", key))
        self.meanwhile(key)
        return None if key.startswith("later") else FindCoordinatorResponse(host=key)

    @property
    def ways(self) -> list[str]:
        return [way for way, _ in self.asked]


class Peer:
    """A client."""

    def __init__(self, served: Served, sock: socket.socket, connection: Connection) -> None:
        self.served = served
        self.connection = connection
        self.socket = sock
        self.has_ended = trio.Event()
        self._received = bytearray()

    def send(self, *numbers: int, keys: str = "g{}") -> None:
        self.socket.sendall(b"".join(request(number, keys.format(number)) for number in numbers))

    async def answers(self) -> list[tuple[int, str]]:
        """All that come until everybody waits: (number, key)."""
        found = []
        while True:
            await trio.testing.wait_all_tasks_blocked()
            try:
                data = self.socket.recv(1 << 20)
            except BlockingIOError:
                break
            if not data:
                break
            self._received += data
        while len(self._received) >= 4 and len(self._received) - 4 >= (
            size := struct.unpack_from(">i", self._received)[0]
        ):
            number, body = parse_response(API, VERSION, bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]
            found.append((number, body.host))
        return found

    async def asked(self, *numbers: int, keys: str = "g{}") -> list[int]:
        """Send and say whose answers came."""
        self.send(*numbers, keys=keys)
        return [number for number, _ in await self.answers()]


class Calls:
    """How often a method of an object is called, which does what it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
        self.count = 0
        method = getattr(of, name)

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return method(*arguments)

        monkeypatch.setattr(of, name, counted)


class Served:
    """Connections of one desk."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.desk = Desk()
        self.shares = Shares(BrokerConfig(), Collector())
        self._nursery = nursery
        self.sockets = ExitStack()

    @property
    def arrivals(self) -> Arrivals:
        return self.shares.arrivals

    def connect(self) -> Peer:
        """A client whose first request has yet to come."""
        ours, theirs = socket.socketpair()
        self.sockets.callback(theirs.close)
        self.sockets.callback(ours.close)
        theirs.setblocking(False)
        peer = Peer(self, theirs, Connection(self.shares, LISTENER, self.desk, PlainTransport(ours), "127.0.0.1:1"))
        self._nursery.start_soon(self._serve, peer)
        return peer

    async def _serve(self, peer: Peer) -> None:
        await peer.connection.serve()
        peer.has_ended.set()

    async def watched(self) -> Peer:
        """A client that has asked once, so that its next request may go straight."""
        peer = self.connect()
        assert await peer.asked(0) == [0]
        self.desk.asked.clear()
        return peer


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    async with trio.open_nursery() as nursery:
        served = Served(nursery)
        nursery.start_soon(served.arrivals.run)
        await trio.testing.wait_all_tasks_blocked()
        with served.sockets:
            yield served
            nursery.cancel_scope.cancel()


# Which way


async def test_the_first_request_has_its_task_and_those_behind_it_go_straight() -> None:
    async with serving() as served:
        peer = served.connect()
        for number in range(4):
            assert await peer.asked(number) == [number]
        assert served.desk.ways == ["handler", "straight", "straight", "straight"]


async def test_what_is_not_for_the_straight_way_is_for_the_handler_once() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.desk.may_answer.set()
        peer.send(1, keys="later{}")
        assert await peer.answers() == [(1, "later1")]
        assert served.desk.asked == [("straight", "later1"), ("handler", "later1")]


async def test_who_mostly_asks_for_what_has_to_wait_is_not_watched_for_long() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.desk.may_answer.set()
        for number in range(PAUSE_REQUESTS + 1):
            assert await peer.asked(number, keys="later{}") == [number]
        assert served.desk.ways.count("straight") == 1
        assert len(served.arrivals) == 0


async def test_after_one_that_waited_it_goes_straight_again_before_long() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.desk.may_answer.set()
        assert await peer.asked(0, keys="later{}") == [0]
        for number in range(PAUSE_REQUESTS + 2):
            assert await peer.asked(number) == [number]
        assert served.desk.ways[-1] == "straight"


async def test_an_api_without_a_straight_way_has_its_handler(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer = await served.watched()
        served.desk.straight = MappingProxyType({})
        other = served.connect()
        for number in range(3):
            assert await other.asked(number) == [number]
        assert served.desk.ways == ["handler"] * 3
        peer.socket.sendall(encode_request(OTHER, 0, 1, "c", HeartbeatRequest(group_id="g", member_id="m")))
        await peer.has_ended.wait()
        assert "is not served" in caplog.text


async def test_where_there_is_no_such_look_every_connection_waits_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "IS_KNOWN", False)
    async with serving() as served:
        peer = served.connect()
        for number in range(3):
            assert await peer.asked(number) == [number]
        assert len(served.arrivals) == 0


async def test_when_nobody_looks_any_more_every_connection_waits_for_itself() -> None:
    async with trio.open_nursery() as nursery:
        served = Served(nursery)
        with served.sockets:
            looking = trio.CancelScope()

            async def look() -> None:
                with looking:
                    await served.arrivals.run()

            nursery.start_soon(look)
            await trio.testing.wait_all_tasks_blocked()
            peer = await served.watched()
            looking.cancel()
            await trio.testing.wait_all_tasks_blocked()
            for number in range(3):
                assert await peer.asked(number) == [number]
            assert len(served.arrivals) == 0
            nursery.cancel_scope.cancel()


async def test_who_is_alone_waits_for_itself_and_is_watched_again_once_it_is_not() -> None:
    async with serving() as served:
        peer = await served.watched()
        assert peer.connection._straight is not None
        for number in range(ALONE_REQUESTS + 2):
            assert await peer.asked(number) == [number]
        assert not peer.connection._straight.is_parked
        for number in range(3):
            assert await peer.asked(number) == [number]
        assert not peer.connection._straight.is_parked
        other = await served.watched()
        for number in range(2):
            assert await peer.asked(number) == [number]
            assert await other.asked(number) == [number]
        assert peer.connection._straight.is_parked
        assert set(served.desk.ways) == {"straight"}


async def test_who_is_alone_and_asks_for_what_has_to_wait_has_its_handler_once_for_each() -> None:
    async with serving() as served:
        peer = await served.watched()
        for number in range(ALONE_REQUESTS + 2):
            assert await peer.asked(number) == [number]
        served.desk.may_answer.set()
        served.desk.asked.clear()
        peer.socket.sendall(b"".join(request(number, "later") for number in range(5)))
        assert await peer.answers() == [(number, "later") for number in range(5)]
        assert served.desk.ways == ["straight", *["handler"] * 5]


async def alone(served: Served) -> Peer:
    """A client that waits for itself, as nobody else has sent anything for long."""
    peer = await served.watched()
    for number in range(ALONE_REQUESTS + 2):
        assert await peer.asked(number) == [number]
    assert peer.connection._straight is not None and not peer.connection._straight.is_parked
    return peer


async def test_who_is_alone_and_sends_the_next_request_at_once_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as served:
        peer = await alone(served)
        for number in range(REST_REQUESTS):  # it took its time before
            assert await peer.asked(number) == [number]
        waits = Calls(monkeypatch, peer.connection._transport, "readable")
        peer.send(0)
        for number in range(1, 3 * ALONE_REQUESTS):
            while True:
                await trio.lowlevel.checkpoint()
                with suppress(BlockingIOError):
                    peer.socket.recv(1 << 10)
                    break
            peer.send(number)
        assert waits.count <= 1  # for the first


async def test_who_is_alone_and_takes_its_time_is_looked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        peer = await alone(served)
        looks = Calls(monkeypatch, peer.connection._transport, "receive_now")
        for number in range(3 * (REST_REQUESTS + 1)):
            assert await peer.asked(number) == [number]
        # A request takes two: nothing is there, it is there.
        assert looks.count <= 2 * 3 * (REST_REQUESTS + 1) + 3 * (LOOKS + 1)


async def test_who_is_alone_and_leaves_while_it_is_looked_for_has_gone() -> None:
    async with serving() as served:
        peer = await alone(served)
        for number in range(REST_REQUESTS):
            assert await peer.asked(number) == [number]
        peer.send(1)
        peer.socket.shutdown(socket.SHUT_WR)
        await peer.has_ended.wait()
        assert await peer.answers() == [(1, "g1")]


# Requests that are like an earlier one


class Echo:
    """Makes who answers requests with the key of an earlier one."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.made: list[int] = []
        """The number of each request of which somebody was made."""
        self.asked: list[str] = []
        """`like`, or not: what was said of each frame."""

    def make(self, client: Any, frame: memoryview, asked: Request, answer: FindCoordinatorResponse) -> Again:
        key = bytes(frame[-3:])
        self.made.append(asked.correlation_id)
        self.served.desk.meanwhile(asked.body.key)

        def again(frame: memoryview) -> list[Any] | None:
            is_like = bytes(frame[-3:]) == key
            self.asked.append("like" if is_like else "unlike")
            return encode_response(parse_request(frame), answer) if is_like else None

        return again


async def echoing(served: Served) -> tuple[Echo, Peer]:
    """A client whose requests have gone straight until somebody was made, of the last of which the key is `g`."""
    echo = Echo(served)
    served.desk.again[API.key] = echo.make
    peer = await served.watched()
    for number in range(UNLIKE_REQUESTS):
        assert echo.made == []
        assert await peer.asked(number, keys="g") == [number]
    assert echo.made == [UNLIKE_REQUESTS - 1]
    served.desk.asked.clear()
    return echo, peer


@pytest.mark.parametrize("is_alone", [False, True])
async def test_a_request_like_an_earlier_one_is_not_read_and_one_that_is_not_is(is_alone: bool) -> None:
    async with serving() as served:
        echo, peer = await echoing(served)
        if is_alone:
            for number in range(ALONE_REQUESTS + 2):
                assert await peer.asked(number, keys="g") == [number]
            assert peer.connection._straight is not None and not peer.connection._straight.is_parked
            served.desk.asked.clear()
            echo.asked.clear()
        assert await peer.asked(7, keys="g") == [7]
        assert served.desk.ways == []
        assert await peer.asked(8, keys="h") == [8]
        assert served.desk.asked == [("straight", "h")]
        assert await peer.asked(9, keys="g") == [9]
        assert echo.asked == ["like", "unlike", "like"]
        assert served.desk.asked == [("straight", "h")]


async def test_after_some_that_are_unlike_the_last_of_them_is_the_one_to_be_like() -> None:
    async with serving() as served:
        echo, peer = await echoing(served)
        for number in range(UNLIKE_REQUESTS):
            assert await peer.asked(number, keys="h") == [number]
            assert await peer.asked(number, keys="h" if echo.made[1:] else "g") == [number]
        assert echo.made == [UNLIKE_REQUESTS - 1] * 2
        served.desk.asked.clear()
        assert await peer.asked(1, 2, 3, keys="h") == [1, 2, 3]
        assert served.desk.ways == []


async def test_who_stands_in_between_meanwhile_is_asked_though_the_request_is_like_an_earlier_one() -> None:
    async with serving() as served:
        echo, peer = await echoing(served)
        served.desk.present.clear()
        assert await peer.asked(1, keys="g") == [1]
        assert served.desk.asked == [("handler", "g")]
        assert echo.asked == []


async def test_an_error_of_who_answers_what_is_like_an_earlier_one_ends_that_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served:
        other = await served.watched()

        def break_down(client: Any, frame: memoryview, asked: Request, answer: Any) -> Again:
            def again(frame: memoryview) -> list[Any] | None:
                raise ZeroDivisionError("ours")

            return again

        served.desk.again[API.key] = break_down
        peer = await served.watched()
        assert await peer.asked(*range(UNLIKE_REQUESTS)) == [*range(UNLIKE_REQUESTS)]
        peer.send(1)
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert "ZeroDivisionError: ours" in caplog.text
        assert await other.asked(1) == [1]


# Order and fairness


async def test_what_is_sent_in_one_go_is_answered_in_its_order_whichever_way_each_goes() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.desk.may_answer.set()
        keys = ["later" if number % 7 == 3 else "g" for number in range(100)]
        peer.socket.sendall(b"".join(request(number, key) for number, key in enumerate(keys)))
        assert await peer.answers() == list(enumerate(keys))
        assert [key for way, key in served.desk.asked if way == "handler" or key == "g"] == keys


async def test_who_waits_holds_back_what_is_behind_it_and_nobody_else() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.socket.sendall(request(1) + request(2, "later") + request(3))
        assert await peer.answers() == [(1, "g")]
        assert await other.asked(1) == [1]
        served.desk.may_answer.set()
        assert await peer.answers() == [(2, "later"), (3, "g")]


async def test_who_sends_much_at_once_has_one_request_in_turn_with_each_of_the_others() -> None:
    async with serving() as served:
        greedy, others = await served.watched(), [await served.watched() for _ in range(3)]
        greedy.send(*range(50), keys="greedy")
        for other in others:
            other.send(*range(5), keys="other")
        for peer in (greedy, *others):
            await peer.answers()
        keys = [key for _, key in served.desk.asked]
        assert sorted(keys[:20]) == ["greedy"] * 5 + ["other"] * 15


async def test_others_have_their_turn_while_one_client_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        peer = await served.watched()
        monkeypatch.setattr(turns, "TURN_S", 0)
        before = turns.passes()
        assert len(await peer.asked(*range(50))) == 50
        assert turns.passes() - before >= 50


@pytest.mark.parametrize(("count", "during"), [(count, during) for count in range(1, 6) for during in range(count)])
async def test_what_comes_while_requests_before_it_are_answered_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, count: int, during: int
) -> None:
    """The socket is asked once for many requests, and tells once of what comes behind them, maybe between two turns."""
    async with serving() as served:
        peer = await served.watched()
        monkeypatch.setattr(turns, "TURN_S", 0)
        peer_sends = {f"g{during}": lambda: peer.send(count)}
        served.desk.meanwhile = lambda key: peer_sends.pop(key, lambda: None)()
        assert await peer.asked(*range(count)) == [*range(count + 1)]
        assert set(served.desk.ways) == {"straight"}


@pytest.mark.parametrize("seed", range(size(8, 20)))
async def test_every_request_is_answered_whenever_it_comes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each that is carried out lets some client send, whole requests or parts of them; turns are over as often as not."""
    chance = random.Random(seed)
    async with serving() as served:
        peers = [await served.watched() for _ in range(chance.randint(1, 5))]
        sent = [0 for _ in peers]
        unsent = [b"" for _ in peers]

        def send_some(_key: str = "") -> None:
            monkeypatch.setattr(turns, "TURN_S", chance.choice((0, turn_s)))
            for _ in range(chance.randint(0, 2)):
                at = chance.randrange(len(peers))
                if sent[at] < 40:
                    for _ in range(chance.randint(1, 4)):
                        sent[at] += 1
                        unsent[at] += request(sent[at], f"{at}")
                size_bytes = chance.choice((len(unsent[at]), chance.randint(0, len(unsent[at]))))
                peers[at].socket.sendall(unsent[at][:size_bytes])
                unsent[at] = unsent[at][size_bytes:]

        turn_s = turns.TURN_S
        served.desk.meanwhile = send_some
        for _ in range(20):
            send_some()
            await trio.testing.wait_all_tasks_blocked()
        served.desk.meanwhile = lambda key: None
        for at, peer in enumerate(peers):
            assert await peer.answers() == [
                (number, f"{at}") for number in range(1, sent[at] + 1 - _waiting(unsent[at]))
            ]


def _waiting(unsent: bytes) -> int:
    """How many requests are not sent to their end."""
    return 0 if not unsent else -(-len(unsent) // len(request(0, "0")))


@pytest.mark.parametrize("greedy_count", [1, 3])
async def test_who_comes_later_has_an_answer_though_others_always_have_another_request_there(
    monkeypatch: pytest.MonkeyPatch, greedy_count: int
) -> None:
    async with serving() as served:
        greedy = [await served.watched() for _ in range(greedy_count)]
        other = await served.watched()
        monkeypatch.setattr(turns, "TURN_S", 0)
        left = 500

        def meanwhile(key: str) -> None:
            nonlocal left
            if key == "other":
                left = 0
            elif left:
                left -= 1
                if left == 450:
                    other.send(1, keys="other")
                # The end of the request that has begun, and the begin of another.
                whole = request(1, key)
                greedy[int(key)].socket.sendall(whole[10:] + whole[:10])

        served.desk.meanwhile = meanwhile
        for number, peer in enumerate(greedy):
            peer.socket.sendall(request(1, str(number)) + request(1, str(number))[:10])
        assert await other.answers() == [(1, "other")]
        keys = [key for _, key in served.desk.asked]
        assert keys.index("other") < 50 + 3 * greedy_count
        for peer in greedy:
            assert await peer.answers()
        assert set(served.desk.ways) == {"straight"}


async def test_answers_are_sent_together_and_the_first_of_them_waits_for_a_few_others_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "TURN_S", 60.0)
    async with serving() as served:
        peers = [await served.watched() for _ in range(2 * TOGETHER + 1)]
        answered_before: list[int] = []

        def note(key: str) -> None:
            answered_before.append(sum(bool(select.select([peer.socket], [], [], 0)[0]) for peer in peers))

        served.desk.meanwhile = note
        for peer in peers:
            peer.send(1)
        for peer in peers:
            assert await peer.answers() == [(1, "g1")]
        assert answered_before == [0] * TOGETHER + [TOGETHER] * TOGETHER + [2 * TOGETHER]
        assert set(served.desk.ways) == {"straight"}


async def test_nobody_else_has_a_turn_before_the_answers_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(5)]
        monkeypatch.setattr(turns, "TURN_S", 0)
        before = turns.passes()
        unsent: list[int] = []

        def note(key: str) -> None:
            answers = sum(bool(select.select([peer.socket], [], [], 0)[0]) for peer in peers)
            unsent.append(len(served.desk.asked) - 1 - answers)

        served.desk.meanwhile = note
        for peer in peers:
            peer.send(1)
        for peer in peers:
            assert await peer.answers() == [(1, "g1")]
        assert unsent == [0] * 5
        assert turns.passes() - before >= 5


@pytest.mark.parametrize("chunk_bytes", [1, 3, 50])
async def test_requests_in_pieces_are_answered_as_they_become_whole(chunk_bytes: int) -> None:
    async with serving() as served:
        peer = await served.watched()
        data = b"".join(map(request, range(5)))
        found = []
        for at in range(0, len(data), chunk_bytes):
            peer.socket.sendall(data[at : at + chunk_bytes])
            found += await peer.answers()
        assert found == [(number, "g") for number in range(5)]
        assert set(served.desk.ways) == {"straight"}


@pytest.mark.parametrize("beyond_bytes", [-100, -1, 0, 1, 100])
async def test_a_frame_may_be_larger_than_the_first_buffer(beyond_bytes: int) -> None:
    async with serving() as served:
        peer = await served.watched()
        empty_bytes = len(request(1, ""))
        key = "k" * (INITIAL_BUFFER_BYTES + beyond_bytes - empty_bytes)
        peer.socket.sendall(request(1) + request(2, key) + request(3))
        assert await peer.answers() == [(1, "g"), (2, key), (3, "g")]
        peer.socket.sendall(request(4, key))
        assert await peer.answers() == [(4, key)]


@pytest.mark.parametrize("rest_bytes", [0, 1, 4, 20])
async def test_who_brings_more_than_a_request_keeps_it_while_others_bring_theirs(rest_bytes: int) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(TOGETHER + 2)]
        for number, peer in enumerate(peers):
            peer.socket.sendall(request(1, f"first {number}") + request(2, f"second {number}")[:rest_bytes])
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(1, f"first {number}")]
            peer.socket.sendall(request(2, f"second {number}")[rest_bytes:])
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(2, f"second {number}")]
        assert set(served.desk.ways) == {"straight"}


async def test_a_request_that_is_not_for_the_straight_way_is_kept_while_others_bring_theirs() -> None:
    async with serving() as served:
        served.desk.may_answer.set()
        peers = [await served.watched() for _ in range(TOGETHER)]
        for number, peer in enumerate(peers):
            peer.send(number, keys="later{}" if number % 2 else "g{}")
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(number, f"later{number}" if number % 2 else f"g{number}")]


async def test_more_connections_than_one_look_tells_of_are_all_answered() -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(2 * AT_ONCE + 1)]
        for number, peer in enumerate(peers):
            peer.send(number)
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(number, f"g{number}")]
        assert set(served.desk.ways) == {"straight"}


@pytest.mark.parametrize("is_alone", [False, True])
async def test_answers_that_are_not_taken_wait_whole_and_in_order(is_alone: bool) -> None:
    async with serving() as served:
        peer = await (alone(served) if is_alone else served.watched())
        served.desk.asked.clear()
        key = "k" * 5_000
        peer.socket.setblocking(True)
        for number in range(300):
            peer.send(number, keys=key)
            await trio.testing.wait_all_tasks_blocked()
            if peer.connection.busy:
                break
        assert peer.connection.busy and len(served.desk.asked) == number + 1
        peer.socket.setblocking(False)
        found = await peer.answers()
        assert found == [(each, key) for each in range(number + 1)]
        assert not peer.connection.busy
        assert await peer.asked(1) == [1]


# Registrations


async def test_nothing_is_missed_that_comes_while_its_task_is_at_work() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="later")
        assert await peer.answers() == []
        peer.send(2)
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.arrivals) == 0
        served.desk.may_answer.set()
        assert await peer.answers() == [(1, "later"), (2, "g2")]
        assert await peer.asked(3) == [3]


class Noting:
    """A watched connection that reads what there is, one byte at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.read = b""
        self.is_parked = True
        self.first: Callable[[], None] = lambda: None

    def arrived(self) -> list[Part] | None:
        self.first()
        try:
            data = self.socket.recv(1)
        except BlockingIOError:
            return None
        self.read += data
        return [data] if data else None

    def send(self, answer: list[Part], *, is_ending: bool) -> bool:
        return True

    def stirred(self) -> None:
        """It asks its socket whenever it is looked at."""

    def wake(self) -> None:
        self.is_parked = False


@pytest.fixture
def pairs() -> Iterator[Callable[[], tuple[socket.socket, Noting]]]:
    with ExitStack() as stack:

        def pair() -> tuple[socket.socket, Noting]:
            theirs, ours = map(stack.enter_context, socket.socketpair())
            ours.setblocking(False)
            return theirs, Noting(ours)

        yield pair


@asynccontextmanager
async def looking() -> AsyncIterator[Arrivals]:
    async with trio.open_nursery() as nursery:
        looks = Arrivals()
        nursery.start_soon(looks.run)
        await trio.testing.wait_all_tasks_blocked()
        yield looks
        nursery.cancel_scope.cancel()


Pair = Callable[[], tuple[socket.socket, Noting]]


async def test_a_descriptor_that_became_another_connections_tells_that_one_nothing_wrong(pairs: Pair) -> None:
    """Of two that have brought something the one that is looked at first is there when the other one goes, and a third has its
    descriptor."""
    async with looking() as looks:
        (peer, one), (other_peer, other), (third_peer, third) = pairs(), pairs(), pairs()

        def replaces(gone: Noting) -> None:
            one.first = other.first = lambda: None
            fd = gone.socket.fileno()
            looks.forget(fd)
            os.dup2(third.socket.fileno(), fd)
            assert looks.watch(fd, third)

        one.first, other.first = partial(replaces, other), partial(replaces, one)
        assert looks.watch(one.socket.fileno(), one)
        assert looks.watch(other.socket.fileno(), other)
        peer.sendall(b"a")
        other_peer.sendall(b"b")
        await trio.testing.wait_all_tasks_blocked()
        assert one.read + other.read in (b"a", b"b")
        assert third.read == b""
        third_peer.sendall(b"c")
        await trio.testing.wait_all_tasks_blocked()
        assert third.read == b"c"


async def test_who_is_at_work_is_forgotten_and_told_of_all_there_is_when_it_comes_back(pairs: Pair) -> None:
    async with looking() as looks:
        peer, one = pairs()
        assert looks.watch(one.socket.fileno(), one)
        one.is_parked = False
        peer.sendall(b"ab")
        await trio.testing.wait_all_tasks_blocked()
        assert (one.read, len(looks)) == (b"", 0)
        one.is_parked = True
        assert looks.watch(one.socket.fileno(), one)
        await trio.testing.wait_all_tasks_blocked()
        assert one.read == b"ab"


async def test_a_connection_that_is_closed_before_its_second_request_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connection")
    async with serving() as served:
        peer = served.connect()
        other = await served.watched()
        monkeypatch.setattr(turns, "TURN_S", 0)  # others have a turn behind its first request

        async def close() -> None:
            peer.connection.close()

        async with trio.open_nursery() as nursery:
            served.desk.meanwhile = lambda key: nursery.start_soon(close)
            peer.send(0)
            await peer.has_ended.wait()
        served.desk.meanwhile = lambda key: None
        assert caplog.records == []
        assert await other.asked(1) == [1]


async def test_out_of_descriptors_nobody_is_watched(pairs: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    async with looking() as looks:
        _, one = pairs()
        monkeypatch.setattr(select, "epoll", none_left)
        assert not looks.watch(one.socket.fileno(), one)
        assert len(looks) == 0


async def test_the_look_leaves_no_descriptor_and_nobody_parked(pairs: Pair) -> None:
    before = os.listdir("/proc/self/fd")
    _, one = pairs()
    async with looking() as looks:
        assert looks.watch(one.socket.fileno(), one)
    assert not one.is_parked
    assert not looks.watch(one.socket.fileno(), one)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 2


# Ends


@pytest.mark.parametrize("behind", [b"", b"\0", request(1)[:-1]])
async def test_a_client_that_goes_is_gone(behind: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.socket.sendall(request(1) + behind)
        peer.socket.shutdown(socket.SHUT_WR)
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert await peer.answers() == [(1, "g")]
        assert served.desk.ways == ["straight"]
        assert len(served.arrivals) == 0
        assert not caplog.records


async def test_a_client_that_closes_while_its_request_is_answered_harms_nobody() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        served.desk.meanwhile = lambda key: peer.socket.close() if key == "leave" else None
        peer.send(1, keys="leave")
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert await other.asked(1) == [1]


@pytest.mark.parametrize(
    ("nonsense", "words"),
    [
        (b"\xff\xff\xff\xff", "frame size -1"),
        (b"\x7f\xff\xff\xff", "frame size 2147483647"),
        (b"\0\0\0\0", "header"),
        (b"\0\0\0\1\0", "header"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "unknown API key 999"),
        (struct.pack(">ihhih", 10, API.key, 99, 1, -1), "version 99"),
        (struct.pack(">ihhihb", 11, API.key, VERSION, 1, -1, 0), "FindCoordinator"),
    ],
)
async def test_wrong_bytes_end_that_connection_with_one_line_as_ever(
    nonsense: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.socket.sendall(request(1) + nonsense + request(2))
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert await peer.answers() == [(1, "g")]
        (line,) = caplog.records
        assert line.levelno == logging.WARNING
        assert "closing 127.0.0.1:1" in line.message
        assert await other.asked(1) == [1]


async def test_an_error_of_ours_ends_that_connection_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()

        def break_down(key: str) -> None:
            if key == "break":
                raise ZeroDivisionError("ours")

        served.desk.meanwhile = break_down
        peer.send(1, keys="break")
        with trio.fail_after(60):
            await peer.has_ended.wait()
        (line,) = caplog.records
        assert "after an error of the broker" in line.message and "ZeroDivisionError: ours" in caplog.text
        assert await other.asked(1) == [1]


async def test_closing_a_connection_that_is_watched_ends_it() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.connection.close()
        peer.connection.close()
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert len(served.arrivals) == 0


async def test_a_connection_may_be_closed_in_the_midst_of_its_own_request_or_of_anothers() -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(4)]

        def close(key: str) -> None:
            for peer in peers[:3]:
                peer.connection.close()

        served.desk.meanwhile = close
        for peer in peers:
            peer.send(1)
        for peer in peers[:3]:
            with trio.fail_after(60):
                await peer.has_ended.wait()
        served.desk.meanwhile = lambda key: None
        assert len(await peers[3].answers()) == 1
        assert await peers[3].asked(2) == [2]
        assert len(served.arrivals) == 1


async def test_who_is_closed_behind_its_request_is_not_sent_the_answer_and_the_others_have_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Else the turn may end between any two of them on a slow machine.
    monkeypatch.setattr(turns, "perf_counter", lambda: 0.0)
    async with serving() as served:
        peers = [await served.watched() for _ in range(4)]
        told: list[int] = []

        def close_the_one_before(key: str) -> None:
            if told:
                peers[told[-1]].connection.close()
            told.append(int(key[1:]))

        served.desk.meanwhile = close_the_one_before
        for number, peer in enumerate(peers):
            peer.send(number)
        for number in range(4):
            assert await peers[number].answers() == ([(number, f"g{number}")] if number == told[-1] else [])
        assert len(served.arrivals) == 1


async def test_a_task_that_is_cancelled_while_it_is_parked_ends() -> None:
    async with serving() as served:
        await served.watched()
        assert len(served.arrivals) == 1
    assert len(served.arrivals) == 0


async def test_a_node_that_stops_takes_no_further_request() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, 2, 3, keys="stop{}")

        def stop(key: str) -> None:
            served.desk.is_open = key != "stop2"

        served.desk.meanwhile = stop
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert await peer.answers() == [(1, "stop1"), (2, "stop2")]


async def test_answers_and_requests_keep_a_connection_from_counting_as_idle(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.connection.idle_s(trio.current_time())
        await trio.sleep(100)
        assert await peer.asked(1) == [1]
        assert peer.connection.idle_s(trio.current_time()) == 0
        await trio.sleep(100)
        assert peer.connection.idle_s(trio.current_time()) == pytest.approx(100)


async def test_who_has_gone_is_freed_at_once() -> None:
    async with serving() as served:
        gc.collect()
        gc.disable()
        try:
            peer = await served.watched()
            assert await peer.asked(1) == [1]
            known = weakref.ref(peer.connection)
            peer.connection.close()
            await peer.has_ended.wait()
            del peer
            await trio.testing.wait_all_tasks_blocked()
            assert known() is None
        finally:
            gc.enable()


async def test_a_connection_that_was_closed_while_its_task_was_at_work_is_not_watched_again() -> None:
    """By then its descriptor may be another one's."""
    async with serving() as served:
        peer = await served.watched()
        straight = peer.connection._straight
        assert straight is not None
        peer.send(1, keys="later")
        await trio.testing.wait_all_tasks_blocked()
        peer.connection.close()
        with pytest.raises(trio.ClosedResourceError):
            await straight.serve()
        served.desk.may_answer.set()
        await peer.has_ended.wait()
        assert len(served.arrivals) == 0
