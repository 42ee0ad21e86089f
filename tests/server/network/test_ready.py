"""Connections with pending requests: the order of answers, which requests wait for which, and what ends a connection."""

from __future__ import annotations

import errno
import gc
import logging
import os
import random
import select
import socket
import struct
import threading
import weakref
from binascii import crc32
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
import trio
import trio.testing

from ottla.protocol import connection as spoken_module
from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request, encode_request, learn, parse_response
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.server.config.broker_config import BrokerConfig
from ottla.server.network import large_requests
from ottla.server.network import ready as ready_module
from ottla.server.network.connection import PRODUCE_KEY, Connection
from ottla.server.network.dispatcher import Deferred, Handler
from ottla.server.network.frames import INITIAL_BUFFER_BYTES
from ottla.server.network.large_requests import READ_ELEMENTS_AT_ONCE
from ottla.server.network.listener import Listener
from ottla.server.network.ready import (
    ALONE_REQUESTS,
    AT_ONCE,
    ENDINGS_MAX,
    HANDED_OVER_MAX,
    LOOKS,
    POLLS,
    REST_REQUESTS,
    TOGETHER,
    ReadyConnections,
)
from ottla.server.network.request_memory import RequestMemory
from ottla.server.network.shares import ConnectionResources
from ottla.server.network.tls_transport import TlsTransport
from ottla.server.network.transport import FEW_BUFFERS, SEND_BYTES, Part, PlainTransport
from ottla.server.runtime import time_slices
from ottla.server.runtime.deferrals import Deferrals
from ottla.server.runtime.gc_policy import GcPolicy
from ottla.storage.disk.files import FileSlice
from ottla.storage.disk.os_files import OsFile
from support.noted import noted
from support.sizes import FULL, size

needs_epoll = pytest.mark.skipif(not ready_module.IS_KNOWN, reason="needs epoll")
pytestmark = needs_epoll

API, OTHER, PRODUCE = APIS[10], APIS[12], APIS[PRODUCE_KEY]
VERSION, KEYS_VERSION, PRODUCE_VERSION = 1, 4, 9
PRODUCED, MANY = 1 << 20, 1 << 21
"""The first numbers of Produce requests, and of requests with many keys."""
LARGE_ANSWER = 30_000
LISTENER = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)


def request(number: int, key: str = "g") -> bytes:
    return encode_request(API, VERSION, number, "c", FindCoordinatorRequest(key=key))


def ask_for(number: int, keys: tuple[str, ...]) -> bytes:
    return encode_request(API, KEYS_VERSION, MANY + number, "c", FindCoordinatorRequest(coordinator_keys=keys))


def produce(number: int, key: str, records: bytes) -> bytes:
    topic = TopicProduceData(name=key, partition_data=(PartitionProduceData(records=records),))
    body = ProduceRequest(acks=1, timeout_ms=1, topic_data=(topic,))
    return encode_request(PRODUCE, PRODUCE_VERSION, PRODUCED + number, "c", body)


def heartbeat(number: int) -> bytes:
    return encode_request(OTHER, 0, number, "c", HeartbeatRequest(group_id="g", member_id="m"))


@pytest.fixture(autouse=True)
def _spoken() -> None:
    """Load the readers before the tests: the first request in a version of an API waits for a thread."""
    for frame in (request(0), ask_for(0, ()), produce(0, "g", b""), heartbeat(0)):
        learn(memoryview(frame)[4:])


def produced(key: str, records: bytes) -> str:
    """Return the text of the answer."""
    return f"{key} {crc32(records)}"


class Held(Deferred):
    """A response that waits until the test ends its wait."""

    def __init__(self, response: Any, *, is_over_at_once: bool) -> None:
        super().__init__(Deferrals(1), 0)
        self.response = response
        self.has_begun = self.has_left = self.is_outdated = False
        self.gives_way, self.is_over_at_once = True, is_over_at_once

    def begin(self, send: Callable[[], object]) -> None:
        super().begin(send)
        self.has_begun = True
        if self.is_over_at_once:
            self.end()

    def leave(self) -> None:
        assert not self.has_left
        super().leave()
        self.has_left = True

    def yields(self, *, is_ending: bool) -> bool:
        return is_ending or self.gives_way

    def finish(self, handle_again: Callable[[], Any]) -> Any:
        return handle_again() if self.is_outdated else self.response

    def instead(self) -> Any:
        return self.response

    def change(self) -> None:
        """End the wait after a change."""
        self.is_outdated = True
        self.end()


class RequestDispatcher:
    """A dispatcher that answers with the request's key, at the time that the key says.

    `later`: when the test allows it. `pass`: in the next pass of the scheduler. `silent` in it: without an answer. `big`: at
    once, with LARGE_ANSWER bytes more. `held`: as the test ends the wait. All others: at once.
    """

    node_id = 0
    login = None

    def __init__(self) -> None:
        self.takes_requests = True
        self.asked: list[str] = []
        """The key of each request for which a handler was called."""
        self.begun: list[str] = []
        """The key of each request whose coroutine has begun."""
        self.held: list[Held] = []
        self.is_over_at_once = False
        """Whether their waits end as they begin."""
        self.changed: Any = None
        """The answer to the next request."""
        self.present: dict[int, Handler] = {API.key: self.handle, PRODUCE.key: self.produce}
        self.handlers: Any = MappingProxyType(self.present)
        self.loadable: dict[int, Handler] = {}
        self.meanwhile: Callable[[str], object] = lambda key: None
        """A function that is called during every request."""
        self.may_answer = trio.Event()

    def is_open(self) -> bool:
        return self.takes_requests

    async def loaded(self, key: int) -> Handler:
        await trio.lowlevel.checkpoint()
        self.present[key] = self.loadable[key]
        return self.present[key]

    def context_for(self, client: Any) -> Any:
        return client

    def handle(self, client: Any, request: Request) -> Any:
        key = ",".join(request.body.coordinator_keys) if request.version >= KEYS_VERSION else request.body.key
        self.asked.append(key)
        self.meanwhile(key)
        if self.changed is not None:
            changed, self.changed = self.changed, None
            return changed
        answer = None if "silent" in key else FindCoordinatorResponse(host=key, coordinators=(Coordinator(key=key),))
        if key.startswith("big"):
            return FindCoordinatorResponse(host=key + "x" * LARGE_ANSWER)
        if key.startswith("held"):
            self.held.append(Held(answer, is_over_at_once=self.is_over_at_once))
            return self.held[-1]
        return self._waited(client, key, answer) if key.startswith(("later", "pass")) else answer

    async def _waited(self, client: Any, key: str, answer: Any) -> Any:
        self.begun.append(key)
        if key.startswith("later"):
            await self.may_answer.wait()
        else:
            await trio.lowlevel.checkpoint()
        client.time_slice.begin()
        return answer

    def produce(self, client: Any, request: Request) -> Any:
        (topic,) = request.body.topic_data
        (partition,) = topic.partition_data
        self.asked.append(topic.name)
        self.meanwhile(topic.name)
        if topic.name.startswith("now"):
            return self._appended(topic.name, partition.records)
        return self._append_later(client, topic.name, partition.records)

    async def _append_later(self, client: Any, key: str, records: memoryview) -> ProduceResponse:
        await self._waited(client, key, None)
        return self._appended(key, records)

    def _appended(self, key: str, records: memoryview) -> ProduceResponse:
        return ProduceResponse(responses=(TopicProduceResponse(name=produced(key, bytes(records))),))


def parsed(received: bytearray) -> Iterator[tuple[int, str]]:
    """Yield number and text of each whole answer, and remove it."""
    while len(received) >= 4 and len(received) - 4 >= (size_bytes := struct.unpack_from(">i", received)[0]):
        frame = bytes(received[4 : 4 + size_bytes])
        del received[: 4 + size_bytes]
        if struct.unpack_from(">i", frame)[0] >= MANY:
            number, body = parse_response(API, KEYS_VERSION, frame)
            yield number - MANY, body.coordinators[0].key
        elif struct.unpack_from(">i", frame)[0] >= PRODUCED:
            number, body = parse_response(PRODUCE, PRODUCE_VERSION, frame)
            yield number - PRODUCED, body.responses[0].name
        else:
            number, body = parse_response(API, VERSION, frame)
            yield number, body.host


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

    def receive(self) -> bool:
        """Read what has arrived; return whether anything has."""
        before = len(self._received)
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except (BlockingIOError, ConnectionResetError):  # the connection is reset with unread requests
                break
            if not data:
                break
            self._received += data
        return len(self._received) > before

    def received(self) -> list[tuple[int, str]]:
        """Return number and text of each answer that has arrived."""
        self.receive()
        return list(parsed(self._received))

    async def answers(self) -> list[tuple[int, str]]:
        """Return all answers that arrive until every task waits."""
        while True:
            await trio.testing.wait_all_tasks_blocked()
            if not self.receive():
                return list(parsed(self._received))

    async def asked(self, *numbers: int, keys: str = "g{}") -> list[int]:
        """Send requests; return the numbers of the answers that came."""
        self.send(*numbers, keys=keys)
        return [number for number, _ in await self.answers()]

    async def end(self) -> None:
        with trio.fail_after(60):
            await self.has_ended.wait()


class Calls:
    """A counter of the calls of an object's method, which works as before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
        self.count = 0
        method = getattr(of, name)

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return method(*arguments)

        monkeypatch.setattr(of, name, counted)


class Steps(trio.abc.Instrument):
    """A counter of the steps of tasks of one kind."""

    def __init__(self, of: str) -> None:
        self.count = 0
        self._of = of

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name.endswith(self._of)


QUEUE, CONNECTION = "ReadyConnections.run", "Served.serve"


@contextmanager
def steps_of(name: str) -> Iterator[Steps]:
    """Count the steps of the task that serves the queue, or of the connections' tasks."""
    steps = Steps(name)
    trio.lowlevel.add_instrument(steps)
    try:
        yield steps
    finally:
        trio.lowlevel.remove_instrument(steps)


class Served:
    """Connections of one dispatcher."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.dispatcher = RequestDispatcher()
        self.shares = ConnectionResources(BrokerConfig(), GcPolicy())
        self._nursery = nursery
        self.sockets = ExitStack()

    @property
    def ready(self) -> ReadyConnections:
        return self.shares.ready

    def connect(
        self, listener: Listener = LISTENER, make: Callable[[socket.socket], PlainTransport] = PlainTransport
    ) -> Peer:
        """Return a client whose first request has yet to come."""
        ours, theirs = socket.socketpair()
        self.sockets.callback(theirs.close)
        self.sockets.callback(ours.close)
        theirs.setblocking(False)
        peer = Peer(self, theirs, Connection(self.shares, listener, self.dispatcher, make(ours), "127.0.0.1:1"))
        self._nursery.start_soon(self.serve, peer)
        return peer

    async def serve(self, peer: Peer) -> None:
        await peer.connection.serve()
        peer.has_ended.set()

    async def watched(self) -> Peer:
        """Return a client whose connection is registered with epoll, as it has sent one request."""
        peer = self.connect()
        assert await peer.asked(0) == [0]
        assert peer.connection.is_parked
        self.dispatcher.asked.clear()
        return peer


@asynccontextmanager
async def serving(*, is_run: bool = True) -> AsyncIterator[Served]:
    async with trio.open_nursery() as nursery:
        served = Served(nursery)
        if is_run:
            nursery.start_soon(served.ready.run)
        await trio.testing.wait_all_tasks_blocked()
        with served.sockets:
            yield served
            nursery.cancel_scope.cancel()


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the time: no slice ends, however slow the machine is."""
    monkeypatch.setattr(time_slices, "perf_counter", lambda: 0.0)


# The task that executes a request


async def test_an_immediate_response_needs_no_connection_task() -> None:
    async with serving() as served:
        peer = await served.watched()
        with steps_of(CONNECTION) as steps:
            for number in range(5):
                assert await peer.asked(number) == [number]
            assert await peer.asked(*range(50)) == [*range(50)]
        assert steps.count == 0
        assert len(served.ready) == 1


async def test_the_first_request_of_a_version_is_prepared_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[int]()

    def noted(frame: memoryview) -> None:
        threads.append(threading.get_ident())
        learn(frame)

    monkeypatch.setattr(spoken_module, "_SPOKEN", {})
    monkeypatch.setattr(large_requests, "learn", noted)
    async with serving() as served:
        peer = served.connect()
        peer.send(*range(3))
        found = list[Any]()
        with trio.fail_after(10):
            while len(found) < 3:
                found += await peer.answers()
                await trio.sleep(0.001)
        assert [number for number, _ in found] == [0, 1, 2]
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


async def test_a_waiting_request_is_dispatched_and_started_once() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="later{}")
        assert await peer.answers() == []
        served.dispatcher.may_answer.set()
        assert await peer.answers() == [(1, "later1")]
        assert served.dispatcher.asked == served.dispatcher.begun == ["later1"]


@pytest.mark.parametrize("key", ["silent", "later silent", "pass silent"])
async def test_a_request_without_response_is_followed_by_the_next(key: str) -> None:
    async with serving() as served:
        peer = await served.watched()
        served.dispatcher.may_answer.set()
        assert await peer.asked(1, keys=key) == []
        peer.socket.sendall(request(2) + request(3, key) * 3 + request(4) + request(5, key))
        assert await peer.answers() == [(2, "g"), (4, "g")]
        assert await peer.asked(6) == [6]
        assert served.dispatcher.asked == [key, "g", key, key, key, "g", key, "g6"]


async def test_an_api_that_is_not_served_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.socket.sendall(request(1) + heartbeat(2) + request(3))
        await peer.end()
        assert await peer.answers() == [(1, "g")]
        assert "is not supported by this listener" in caplog.text


async def test_an_api_under_loading_is_answered_in_order() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        served.dispatcher.loadable[API.key] = served.dispatcher.present.pop(API.key)
        peer.send(1, 2, 3)
        other.send(1, keys="pass{}")
        assert await peer.answers() == [(number, f"g{number}") for number in (1, 2, 3)]
        assert await other.answers() == [(1, "pass1")]


async def test_a_replaced_handler_is_not_called() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.dispatcher.present[API.key] = lambda client, request: FindCoordinatorResponse(host="other")
        peer.send(1)
        assert await peer.answers() == [(1, "other")]
        assert served.dispatcher.asked == []


async def many_ways(served: Served, peer: Peer) -> None:
    """Send requests of every kind, one by one and together."""
    served.dispatcher.may_answer.set()
    long_key = "k" * (INITIAL_BUFFER_BYTES + 1)
    for number in range(3):
        assert await peer.asked(number) == [number]
        assert await peer.asked(number, keys="later{}") == [number]
    peer.socket.sendall(request(1) + request(2, "pass") + produce(3, "later", b"abc") + request(4, "silent"))
    peer.socket.sendall(request(5, long_key) + request(6))
    assert await peer.answers() == [(1, "g"), (2, "pass"), (3, produced("later", b"abc")), (5, long_key), (6, "g")]
    peer.socket.sendall(request(7)[:9])
    assert await peer.answers() == []
    peer.socket.sendall(request(7)[9:])
    assert await peer.answers() == [(7, "g")]
    peer.socket.shutdown(socket.SHUT_WR)
    await peer.end()


async def test_without_epoll_each_connection_waits_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_module, "IS_KNOWN", False)
    async with serving() as served:
        peer = served.connect()
        await many_ways(served, peer)
        assert len(served.ready) == 0


async def test_while_the_queue_is_not_served_each_connection_waits_separately() -> None:
    async with serving(is_run=False) as served:
        peer = served.connect()
        await many_ways(served, peer)
        assert len(served.ready) == 0


async def test_after_the_queues_service_each_connection_waits_separately() -> None:
    async with serving(is_run=False) as served, trio.open_nursery() as nursery:
        nursery.start_soon(served.ready.run)
        await trio.testing.wait_all_tasks_blocked()
        peers = [await served.watched() for _ in range(3)]
        at_work = await served.watched()
        at_work.send(1, 2, keys="later{}")
        assert await at_work.answers() == []
        nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.ready) == 0
        for peer in peers:
            await many_ways(served, peer)
        assert await at_work.answers() == [(1, "later1"), (2, "later2")]
        assert await at_work.asked(3) == [3]


async def test_queued_connections_at_the_end_of_the_service_are_answered(still: None) -> None:
    """A request ends the service: each connection then handles its own requests in the queue."""
    async with serving(is_run=False) as served, trio.open_nursery() as nursery:
        nursery.start_soon(served.ready.run)
        await trio.testing.wait_all_tasks_blocked()
        peers = [await served.watched() for _ in range(2 * HANDED_OVER_MAX)]
        served.dispatcher.meanwhile = lambda key: nursery.cancel_scope.cancel()
        for peer in peers:
            peer.send(1, 2, keys="pass{}")
        for peer in peers:
            assert await peer.answers() == [(1, "pass1"), (2, "pass2")]
        assert len(served.ready) == 0


# A client that is alone


async def alone(served: Served) -> Peer:
    """Return a client while no other has sent a request for long."""
    peer = await served.watched()
    for number in range(ALONE_REQUESTS + 2):
        assert await peer.asked(number) == [number]
    return peer


async def soon(peer: Peer) -> None:
    """Wait for an answer without letting the machine sleep."""
    while not peer.received():
        await trio.lowlevel.checkpoint()


async def test_a_single_fast_client_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as served:
        peer = await alone(served)
        peer.send(0)
        for number in range(1, REST_REQUESTS + 1):  # it was slow before
            await soon(peer)
            peer.send(number)
        waits = Calls(monkeypatch, trio.lowlevel, "wait_readable")
        for number in range(3 * ALONE_REQUESTS):
            await soon(peer)
            peer.send(number)
        assert waits.count == 0


async def test_a_single_slow_client_is_polled_seldom(still: None) -> None:
    async with serving() as served:
        peer = await alone(served)
        count = 3 * (REST_REQUESTS + 1)
        with steps_of(QUEUE) as steps:
            for number in range(count):
                assert await peer.asked(number) == [number]
        # One for each request, and one for POLLS polls.
        passes = LOOKS // POLLS
        assert count + passes <= steps.count <= count + 3 * passes + 3


async def test_several_clients_are_not_polled(still: None) -> None:
    async with serving() as served:
        peer, other = await alone(served), await served.watched()
        with steps_of(QUEUE) as steps:
            for number in range(ALONE_REQUESTS + 10):
                assert await peer.asked(number) == [number]
                assert await other.asked(number) == [number]
        assert steps.count == 2 * (ALONE_REQUESTS + 10)


async def test_a_client_that_connects_during_polling_is_answered() -> None:
    async with serving() as served:
        peer, other = await alone(served), served.connect()
        for number in range(REST_REQUESTS):
            assert await peer.asked(number) == [number]
        peer.send(1)
        await soon(peer)
        other.send(1)
        await soon(other)
        peer.send(2)
        other.send(2)
        assert await peer.answers() == [(2, "g2")]
        assert await other.answers() == [(2, "g2")]


async def test_a_single_client_that_disconnects_while_polled_is_closed() -> None:
    async with serving() as served:
        peer = await alone(served)
        for number in range(REST_REQUESTS):
            assert await peer.asked(number) == [number]
        peer.send(1)
        peer.socket.shutdown(socket.SHUT_WR)
        await peer.end()
        assert await peer.answers() == [(1, "g1")]
        assert len(served.ready) == 0


# Order and fairness


async def test_requests_sent_together_are_answered_in_order() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.dispatcher.may_answer.set()
        keys = [{3: "later", 5: "pass"}.get(number % 7, "g") for number in range(100)]
        peer.socket.sendall(b"".join(request(number, key) for number, key in enumerate(keys)))
        assert await peer.answers() == list(enumerate(keys))
        assert served.dispatcher.asked == keys


async def test_a_waiting_request_delays_only_later_ones_of_its_client() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.socket.sendall(request(1) + request(2, "later") + request(3))
        assert await peer.answers() == [(1, "g")]
        assert await other.asked(1) == [1]
        assert served.dispatcher.asked == ["g", "later", "g1"]
        served.dispatcher.may_answer.set()
        assert await peer.answers() == [(2, "later"), (3, "g")]


async def test_a_client_with_many_requests_alternates_with_the_other_clients() -> None:
    async with serving() as served:
        greedy, others = await served.watched(), [await served.watched() for _ in range(3)]
        greedy.send(*range(50), keys="greedy")
        for other in others:
            other.send(*range(5), keys="other")
        for peer in (greedy, *others):
            await peer.answers()
        assert len(served.dispatcher.asked) == 65
        rounds = [sorted(served.dispatcher.asked[at : at + 4]) for at in range(0, 20, 4)]
        assert rounds == [["greedy", "other", "other", "other"]] * 5


async def test_other_tasks_run_while_one_client_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        peer = await served.watched()
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        before = time_slices.passes()
        assert len(await peer.asked(*range(50))) == 50
        assert time_slices.passes() - before >= 50


async def test_a_client_whose_requests_fill_many_slices_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule also holds when the client's own task executes them, because the first one has to wait."""
    async with serving() as served:
        greedy, other = await served.watched(), await served.watched()
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        greedy.socket.sendall(request(0, "pass") + b"".join(request(number, "greedy") for number in range(1, 200)))
        served.dispatcher.meanwhile = lambda key: (
            other.send(1, 2, 3, keys="other") if len(served.dispatcher.asked) == 20 else None
        )
        assert [number for number, _ in await greedy.answers()] == [*range(200)]
        assert await other.answers() == [(number, "other") for number in (1, 2, 3)]
        assert [at for at, key in enumerate(served.dispatcher.asked) if key == "other"][-1] < 40


async def test_a_request_does_not_wait_for_the_cleanup_of_disconnected_clients(still: None) -> None:
    async with serving() as served:
        peer, leaving = await served.watched(), [await served.watched() for _ in range(3 * AT_ONCE)]
        for each in leaving:
            each.socket.close()
        peer.send(1)
        gone: list[int] = []
        served.dispatcher.meanwhile = lambda key: gone.append(sum(each.has_ended.is_set() for each in leaving))
        assert await peer.answers() == [(1, "g1")]
        assert gone[0] <= ENDINGS_MAX
        for each in leaving:
            await each.end()


async def test_disconnected_clients_are_closed_while_another_always_has_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving() as served:
        peer, leaving = await served.watched(), [await served.watched() for _ in range(3 * ENDINGS_MAX)]
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        for each in leaving:
            each.socket.close()
        gone: list[int] = []
        served.dispatcher.meanwhile = lambda key: gone.append(sum(each.has_ended.is_set() for each in leaving))
        assert await peer.asked(*range(200)) == [*range(200)]
        assert gone[100] == len(leaving)


@pytest.mark.parametrize(("count", "during"), [(count, during) for count in range(1, 6) for during in range(count)])
async def test_bytes_that_arrive_during_earlier_requests_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, count: int, during: int
) -> None:
    """The socket is read once for many requests, and reports once that more has arrived, maybe between two slices."""
    async with serving() as served:
        peer = await served.watched()
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        peer_sends = {f"g{during}": lambda: peer.send(count)}
        served.dispatcher.meanwhile = lambda key: peer_sends.pop(key, lambda: None)()
        assert await peer.asked(*range(count)) == [*range(count + 1)]


@pytest.mark.parametrize("seed", range(size(4, 20)))
async def test_every_request_is_answered_at_any_time_of_arrival(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Each executed request lets some client send whole requests or parts of them; half of the time the slice is over."""
    chance = random.Random(seed)
    async with serving() as served:
        peers = [await served.watched() for _ in range(chance.randint(1, 5))]
        sent: list[list[str]] = [[] for _ in peers]
        unsent = [b"" for _ in peers]

        def send_some(_key: str = "") -> None:
            monkeypatch.setattr(time_slices, "SLICE_S", chance.choice((0, turn_s)))
            for _ in range(chance.randint(0, 2)):
                at = chance.randrange(len(peers))
                if len(sent[at]) < 40:
                    for _ in range(chance.randint(1, 4)):
                        key = chance.choice(("g", "g", "g", "pass"))
                        unsent[at] += request(len(sent[at]), key)
                        sent[at].append(key)
                size_bytes = chance.choice((len(unsent[at]), chance.randint(0, len(unsent[at]))))
                peers[at].socket.sendall(unsent[at][:size_bytes])
                unsent[at] = unsent[at][size_bytes:]

        turn_s = time_slices.SLICE_S
        served.dispatcher.meanwhile = send_some
        for _ in range(20):
            send_some()
            await trio.testing.wait_all_tasks_blocked()
        served.dispatcher.meanwhile = lambda key: None
        for at, peer in enumerate(peers):
            peer.socket.sendall(unsent[at])
        for at, peer in enumerate(peers):
            assert await peer.answers() == list(enumerate(sent[at]))


@pytest.mark.parametrize("greedy_count", [1, 3])
async def test_a_late_client_is_answered_despite_permanently_busy_ones(
    monkeypatch: pytest.MonkeyPatch, greedy_count: int
) -> None:
    async with serving() as served:
        greedy = [await served.watched() for _ in range(greedy_count)]
        other = await served.watched()
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        left = 500

        def meanwhile(key: str) -> None:
            nonlocal left
            if key == "other":
                left = 0
            elif left:
                left -= 1
                if left == 450:
                    other.send(1, keys="other")
                # The end of the request that has begun, and the beginning of another.
                whole = request(1, key)
                greedy[int(key)].socket.sendall(whole[10:] + whole[:10])

        served.dispatcher.meanwhile = meanwhile
        for number, peer in enumerate(greedy):
            peer.socket.sendall(request(1, str(number)) + request(1, str(number))[:10])
        assert await other.answers() == [(1, "other")]
        assert served.dispatcher.asked.index("other") < 50 + 3 * greedy_count
        for peer in greedy:
            assert await peer.answers()


def answered_peers(peers: list[Peer]) -> int:
    """Return how many have an answer that they have not read."""
    return sum(bool(select.select([peer.socket], [], [], 0)[0]) for peer in peers)


async def test_responses_are_sent_together_and_the_first_waits_for_few(still: None) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(2 * TOGETHER + 1)]
        answered_before: list[int] = []
        served.dispatcher.meanwhile = lambda key: answered_before.append(answered_peers(peers))
        for peer in peers:
            peer.send(1)
        for peer in peers:
            assert await peer.answers() == [(1, "g1")]
        assert answered_before == [0] * TOGETHER + [TOGETHER] * TOGETHER + [2 * TOGETHER]


async def test_responses_are_sent_before_any_other_task_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(5)]
        monkeypatch.setattr(time_slices, "SLICE_S", 0)
        before = time_slices.passes()
        unsent: list[int] = []
        served.dispatcher.meanwhile = lambda key: unsent.append(
            len(served.dispatcher.asked) - 1 - answered_peers(peers)
        )
        for peer in peers:
            peer.send(1)
        for peer in peers:
            assert await peer.answers() == [(1, "g1")]
        assert unsent == [0] * 5
        assert time_slices.passes() - before >= 5


async def test_responses_before_a_waiting_request_are_sent_in_its_slice(still: None) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(6)]
        for number, peer in enumerate(peers):
            peer.send(number, keys="later{}" if number % 2 else "g{}")
        for number, peer in enumerate(peers):
            assert await peer.answers() == ([] if number % 2 else [(number, f"g{number}")])
        served.dispatcher.may_answer.set()
        for number, peer in enumerate(peers):
            assert await peer.answers() == ([(number, f"later{number}")] if number % 2 else [])


async def test_a_slice_leaves_a_limited_number_of_requests_to_connection_tasks(still: None) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(2 * HANDED_OVER_MAX + 5)]
        passes: list[int] = []
        served.dispatcher.meanwhile = lambda key: passes.append(time_slices.passes())
        for peer in peers:
            peer.send(1, keys="pass{}")
        for peer in peers:
            assert await peer.answers() == [(1, "pass1")]
        assert [*Counter(passes).values()] == [HANDED_OVER_MAX, HANDED_OVER_MAX, 5]


@pytest.mark.parametrize("key_bytes", [1, INITIAL_BUFFER_BYTES - 100])
@pytest.mark.parametrize("count", [1, 20])
async def test_requests_that_arrive_together_are_read_in_time_slices(
    monkeypatch: pytest.MonkeyPatch, key_bytes: int, count: int
) -> None:
    """Many clients send one or many requests each: no scheduler pass is longer than a slice and a request."""
    now_s, request_s = 0.0, time_slices.SLICE_S / 4
    monkeypatch.setattr(time_slices, "perf_counter", lambda: now_s)
    async with serving() as served:
        peers = [await served.watched() for _ in range(40 // count)]
        passes: list[int] = []

        def take_time(key: str) -> None:
            nonlocal now_s
            now_s += request_s
            passes.append(time_slices.passes())

        served.dispatcher.meanwhile = take_time
        key = "k" * key_bytes
        async with trio.open_nursery() as nursery:
            for peer in peers:
                nursery.start_soon(send_all, peer, request(1, key) * count)
            found: list[list[tuple[int, str]]] = [[] for _ in peers]
            while len(passes) < count * len(peers):
                for peer, some in zip(peers, found, strict=True):
                    some += await peer.answers()
        for peer, some in zip(peers, found, strict=True):
            some += await peer.answers()
            assert some == [(1, key)] * count
        assert max(Counter(passes).values()) * request_s <= time_slices.SLICE_S + request_s


async def send_all(peer: Peer, data: bytes) -> None:
    """Send more than a socket accepts at once."""
    with trio.socket.from_stdlib_socket(peer.socket.dup()) as sock:
        view = memoryview(data)
        while view:
            view = view[await sock.send(view) :]


# Bytes


@pytest.mark.parametrize("chunk_bytes", [1, 3, 50])
async def test_requests_in_pieces_are_answered_when_complete(chunk_bytes: int) -> None:
    async with serving() as served:
        peer = await served.watched()
        data = b"".join(map(request, range(5)))
        found = []
        with steps_of(CONNECTION) as steps:
            for at in range(0, len(data), chunk_bytes):
                peer.socket.sendall(data[at : at + chunk_bytes])
                found += await peer.answers()
                assert len(found) == (at + chunk_bytes) // len(request(0)) or at + chunk_bytes > len(data)
        assert found == [(number, "g") for number in range(5)]
        assert steps.count == 0


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


async def test_small_frames_after_a_large_one_need_no_connection_task() -> None:
    async with serving() as served:
        peer = await served.watched()
        records = bytes(100_000)
        await send_all(peer, produce(1, "now", records))
        assert await peer.answers() == [(1, produced("now", records))]
        with steps_of(CONNECTION) as steps:
            assert await peer.asked(2, 3) == [2, 3]
            peer.socket.sendall(produce(4, "now", b"a" * 20_000))
            assert await peer.answers() == [(4, produced("now", b"a" * 20_000))]
        assert steps.count == 0


@pytest.mark.parametrize("rest_bytes", [0, 1, 4, 20])
async def test_a_partial_next_request_is_kept_while_other_clients_send(rest_bytes: int) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(TOGETHER + 2)]
        for number, peer in enumerate(peers):
            peer.socket.sendall(request(1, f"first {number}") + request(2, f"second {number}")[:rest_bytes])
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(1, f"first {number}")]
            peer.socket.sendall(request(2, f"second {number}")[rest_bytes:])
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(2, f"second {number}")]


async def test_a_waiting_request_is_kept_while_other_clients_send() -> None:
    async with serving() as served:
        served.dispatcher.may_answer.set()
        peers = [await served.watched() for _ in range(TOGETHER)]
        for number, peer in enumerate(peers):
            peer.send(number, keys="later{}" if number % 2 else "g{}")
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(number, f"later{number}" if number % 2 else f"g{number}")]


async def test_records_of_a_waiting_produce_request_are_unchanged() -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(TOGETHER)]
        for at, peer in enumerate(peers):
            peer.socket.sendall(produce(at, f"later{at}", bytes([at]) * 1_000))
        for peer in peers:
            assert await peer.answers() == []
        others = [await served.watched() for _ in range(3)]
        for other in others:
            other.socket.sendall(produce(1, "now", b"o" * 10_000))
            assert await other.answers() == [(1, produced("now", b"o" * 10_000))]
        served.dispatcher.may_answer.set()
        for at, peer in enumerate(peers):
            assert await peer.answers() == [(at, produced(f"later{at}", bytes([at]) * 1_000))]


async def test_only_a_request_whose_frame_is_needed_later_keeps_the_shared_buffer() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        buffer = served.ready.buffer
        peer.send(1, keys="later{}")
        other.socket.sendall(produce(1, "now", b"abc"))
        assert await other.answers() == [(1, produced("now", b"abc"))]
        assert served.ready.buffer is buffer
        other.socket.sendall(produce(2, "later", b"abc"))
        assert await other.answers() == []
        assert served.ready.buffer is not buffer
        assert len(served.ready.buffer) == INITIAL_BUFFER_BYTES
        served.dispatcher.may_answer.set()
        assert await peer.answers() == [(1, "later1")]
        assert await other.answers() == [(2, produced("later", b"abc"))]


async def test_a_frame_of_many_elements_is_unchanged_until_a_worker_reads_it() -> None:
    keys = tuple(f"{number % 100:02}" for number in range(READ_ELEMENTS_AT_ONCE + 1))
    many = encode_request(API, KEYS_VERSION, 1, "c", FindCoordinatorRequest(coordinator_keys=keys))
    assert len(many) < INITIAL_BUFFER_BYTES
    async with serving() as served:
        peers = [await served.watched() for _ in range(3)]
        other = await served.watched()
        for peer in peers:
            peer.socket.sendall(many)
        other.socket.sendall(produce(1, "now", b"o" * (INITIAL_BUFFER_BYTES - 200)))
        with trio.fail_after(60):
            while len(served.dispatcher.asked) < 4:
                await trio.lowlevel.checkpoint()
        assert sorted(served.dispatcher.asked) == sorted(["now"] + [",".join(keys)] * 3)


async def test_an_api_under_loading_keeps_the_records() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        served.dispatcher.loadable[PRODUCE.key] = served.dispatcher.present.pop(PRODUCE.key)
        peer.socket.sendall(produce(1, "now", b"abc"))
        other.socket.sendall(request(2, "k" * 500))
        assert await peer.answers() == [(1, produced("now", b"abc"))]
        assert await other.answers() == [(2, "k" * 500)]


async def test_more_connections_than_one_call_names_are_all_answered() -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(2 * AT_ONCE + 1)]
        for number, peer in enumerate(peers):
            peer.send(number)
        for number, peer in enumerate(peers):
            assert await peer.answers() == [(number, f"g{number}")]


@pytest.mark.parametrize("way", ["queue", "own task", "long frame"])
async def test_unsent_responses_wait_completely_and_in_order(still: None, way: str) -> None:
    """The connection is busy in the meantime: a node that stops does not cut its answers."""
    async with serving() as served:
        peer = await served.watched()
        long_key = "k" * (INITIAL_BUFFER_BYTES + 1)
        if way == "long frame":  # its buffer is kept: the task only reads the first one
            peer.connection._transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        sent = [(0, "pass")] if way == "own task" else []
        data = b"".join(request(*each) for each in sent)
        while not peer.connection.busy and len(sent) < 100:
            number = len(sent)
            if way == "long frame":
                data, answer = request(number, long_key), (number, long_key)
            else:
                data, answer = data + request(number, "big"), (number, "big" + "x" * LARGE_ANSWER)
            sent.append(answer)
            if way != "own task" or number == 90:
                peer.socket.sendall(data)
                data = b""
                await trio.testing.wait_all_tasks_blocked()
        assert peer.connection.busy
        asked = len(served.dispatcher.asked)
        assert asked <= len(sent)
        found = await peer.answers()
        assert found == sent
        assert not peer.connection.busy
        assert await peer.asked(1) == [1]


@pytest.mark.parametrize("key", ["big", "pass"])
async def test_an_unsent_response_delays_the_next_request(key: str) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.socket.sendall(request(0, key) + b"".join(request(number, "big") for number in range(1, 100)))
        await trio.testing.wait_all_tasks_blocked()
        asked = len(served.dispatcher.asked)
        assert asked < 100
        assert await other.asked(*range(10)) == [*range(10)]
        assert len(served.dispatcher.asked) == asked + 10
        assert [number for number, _ in await peer.answers()] == [*range(100)]


# Registrations


async def test_events_during_a_connections_task_are_not_missed() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="later")
        assert await peer.answers() == []
        peer.send(2)
        await trio.testing.wait_all_tasks_blocked()
        assert not peer.connection.is_parked
        served.dispatcher.may_answer.set()
        assert await peer.answers() == [(1, "later"), (2, "g2")]
        assert await peer.asked(3) == [3]


class Noting:
    """A watched connection that reads all available bytes, one at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.read = b""
        self.is_parked = True
        self.is_queued = False
        self.news: list[bool] = []
        """For each event, whether the client has closed its side."""
        self.first: Callable[[], None] = lambda: None

    def has_news(self, *, is_ending: bool) -> None:
        self.news.append(is_ending)

    def take(self, buffer: memoryview) -> list[Part] | None:
        self.first()
        try:
            data = self.socket.recv(1)
        except BlockingIOError:
            return None
        self.read += data
        return [data] if data else None

    def send(self, parts: list[Part]) -> bool:
        return True

    def wake(self) -> None:
        self.is_parked = False


Pair = Callable[[], tuple[socket.socket, Noting]]


@pytest.fixture
def pairs() -> Iterator[Pair]:
    with ExitStack() as stack:

        def pair() -> tuple[socket.socket, Noting]:
            theirs, ours = map(stack.enter_context, socket.socketpair())
            ours.setblocking(False)
            return theirs, Noting(ours)

        yield pair


@asynccontextmanager
async def looking() -> AsyncIterator[ReadyConnections]:
    async with trio.open_nursery() as nursery:
        ready = ReadyConnections()
        nursery.start_soon(ready.run)
        await trio.testing.wait_all_tasks_blocked()
        yield ready
        nursery.cancel_scope.cancel()


async def test_a_reused_descriptor_does_not_disturb_its_new_connection(pairs: Pair) -> None:
    """Two connections have data. The event of the first closes the second, and a third one gets that one's descriptor."""
    async with looking() as ready:
        (peer, one), (other_peer, other), (third_peer, third) = pairs(), pairs(), pairs()

        def replaces(gone: Noting) -> None:
            one.first = other.first = lambda: None
            fd = gone.socket.fileno()
            ready.forget(fd, gone)
            gone.wake()
            os.dup2(third.socket.fileno(), fd)
            assert ready.watch(fd, third)

        one.first, other.first = partial(replaces, other), partial(replaces, one)
        assert ready.watch(one.socket.fileno(), one)
        assert ready.watch(other.socket.fileno(), other)
        peer.sendall(b"a")
        other_peer.sendall(b"b")
        await trio.testing.wait_all_tasks_blocked()
        assert one.read + other.read in (b"a", b"b")
        assert third.read == b""
        third_peer.sendall(b"c")
        await trio.testing.wait_all_tasks_blocked()
        assert third.read == b"c"


async def test_a_closed_connection_does_not_unregister_its_descriptors_new_owner(pairs: Pair) -> None:
    async with looking() as ready:
        (_, one), (other_peer, other) = pairs(), pairs()
        fd = other.socket.fileno()
        assert ready.watch(fd, other)
        ready.forget(fd, one)
        ready.forget(-1, one)
        assert len(ready) == 1
        assert not ready.watch(fd, one)  # it has to wait by itself
        other_peer.sendall(b"a")
        await trio.testing.wait_all_tasks_blocked()
        assert (one.read, other.read) == (b"", b"a")


async def test_a_busy_connection_is_not_dispatched_and_may_be_queued_afterwards(
    pairs: Pair,
) -> None:
    async with looking() as ready:
        (peer, one), (other_peer, other) = pairs(), pairs()
        assert ready.watch(one.socket.fileno(), one)
        assert ready.watch(other.socket.fileno(), other)
        one.is_parked = False
        peer.sendall(b"ab")
        await trio.testing.wait_all_tasks_blocked()
        assert (one.read, one.news) == (b"", [False])
        assert not ready.enqueue(one)  # the queue is not served at present
        one.is_parked = True
        assert ready.watch(one.socket.fileno(), one)

        def have_one_stand() -> None:
            assert ready.enqueue(one)

        other.first = have_one_stand
        other_peer.sendall(b"c")
        await trio.testing.wait_all_tasks_blocked()
        assert (one.read, other.read) == (b"ab", b"c")


async def test_a_client_that_closes_its_side_is_a_separate_event(pairs: Pair) -> None:
    async with looking() as ready:
        peer, one = pairs()
        assert ready.watch(one.socket.fileno(), one)
        peer.sendall(b"a")
        await trio.testing.wait_all_tasks_blocked()
        peer.shutdown(socket.SHUT_WR)
        await trio.testing.wait_all_tasks_blocked()
        assert one.news == [False, True]


async def test_a_connection_closed_before_its_second_request_ends_without_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connection")
    async with serving() as served:
        peer = served.connect()
        other = await served.watched()
        monkeypatch.setattr(time_slices, "SLICE_S", 0)  # the time slice ends after its first request

        async def close() -> None:
            peer.connection.close()

        async with trio.open_nursery() as nursery:
            served.dispatcher.meanwhile = lambda key: nursery.start_soon(close)
            peer.send(0)
            await peer.end()
        served.dispatcher.meanwhile = lambda key: None
        assert caplog.records == []
        assert await other.asked(1) == [1]


async def test_without_descriptors_each_connection_waits_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    async with serving() as served:
        peer = served.connect()
        with monkeypatch.context() as patch:
            patch.setattr(select, "epoll", none_left)
            await many_ways(served, peer)
        assert len(served.ready) == 0
        assert (await served.watched()).connection.is_parked


class Full:
    """An epoll that accepts no further descriptor."""

    def __init__(self, epoll: select.epoll) -> None:
        self.close, self.poll, self.fileno = epoll.close, epoll.poll, epoll.fileno

    def register(self, fd: int, events: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")


async def test_without_epoll_watches_each_connection_waits_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    epoll = select.epoll
    monkeypatch.setattr(select, "epoll", lambda: Full(epoll()))
    async with serving() as served:
        peers = [served.connect() for _ in range(2)]
        for peer in peers:
            await many_ways(served, peer)
        assert len(served.ready) == 0


async def test_the_queue_leaves_no_descriptor_and_no_task_parked(pairs: Pair) -> None:
    before = os.listdir("/proc/self/fd")
    _, one = pairs()
    async with looking() as ready:
        assert ready.watch(one.socket.fileno(), one)
    assert not one.is_parked
    assert not ready.watch(one.socket.fileno(), one)
    assert not ready.enqueue(one)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 2


async def test_a_new_connection_may_reuse_the_descriptor_of_an_ending_one(still: None) -> None:
    async with serving() as served:
        gone, closing = await served.watched(), await served.watched()
        came: list[Peer] = []

        def replace(key: str) -> None:
            if key == "replace":
                fd = gone.connection._transport.fileno()
                gone.connection.close()
                came.append(served.connect())
                assert came[0].connection._transport.fileno() == fd

        served.dispatcher.meanwhile = replace
        gone.socket.sendall(request(1) + request(2, "not any more")[:9])
        await trio.testing.wait_all_tasks_blocked()
        closing.send(1, keys="replace")
        gone.socket.sendall(request(2, "not any more")[9:])
        await gone.end()
        assert await closing.answers() == [(1, "replace")]
        for number in range(3):
            assert await came[0].asked(number) == [number]
        assert "not any more" not in served.dispatcher.asked


# Ends


@pytest.mark.parametrize("key", ["g", "pass", "silent"])
@pytest.mark.parametrize("rest", [b"", b"\0", request(1)[:-1]])
async def test_a_client_that_disconnects_is_closed(key: str, rest: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.socket.sendall(request(1, key) + rest)
        peer.socket.shutdown(socket.SHUT_WR)
        await peer.end()
        assert await peer.answers() == ([] if key == "silent" else [(1, key)])
        assert served.dispatcher.asked == [key]
        assert len(served.ready) == 0
        assert not caplog.records


async def test_a_client_that_disconnects_while_its_connection_waits_is_closed() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.socket.sendall(request(1)[:9])
        await trio.testing.wait_all_tasks_blocked()
        for each in (peer, other):
            each.socket.close()
            await each.end()
        assert len(served.ready) == 0


async def test_a_client_that_disconnects_during_its_request_is_closed_afterwards() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, 2, 3, keys="later{}")
        await trio.testing.wait_all_tasks_blocked()
        peer.socket.shutdown(socket.SHUT_WR)
        await trio.testing.wait_all_tasks_blocked()
        served.dispatcher.may_answer.set()
        await peer.end()
        assert await peer.answers() == [(number, f"later{number}") for number in (1, 2, 3)]


async def test_a_client_that_closes_during_its_request_harms_no_other() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        served.dispatcher.meanwhile = lambda key: peer.socket.close() if key == "leave" else None
        peer.send(1, keys="leave")
        await peer.end()
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
@pytest.mark.parametrize("is_alone_in_its_read", [False, True])
async def test_invalid_bytes_end_their_connection_with_one_line(
    nonsense: bytes, words: str, is_alone_in_its_read: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        if is_alone_in_its_read:
            assert await peer.asked(1) == [1]
            peer.socket.sendall(nonsense)
        else:
            peer.socket.sendall(request(1) + nonsense + request(2))
        await peer.end()
        assert await peer.answers() == ([] if is_alone_in_its_read else [(1, "g")])
        (line,) = caplog.records
        assert line.levelno == logging.WARNING
        assert "closing 127.0.0.1:1" in line.message
        assert words in line.message
        assert await other.asked(1) == [1]


async def test_an_internal_error_ends_its_connection_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()

        def break_down(key: str) -> None:
            if key == "break":
                raise ZeroDivisionError("ours")

        served.dispatcher.meanwhile = break_down
        peer.socket.sendall(request(1) + request(2, "break") + request(3))
        await peer.end()
        (line,) = caplog.records
        assert "after an internal error" in line.message and "ZeroDivisionError: ours" in caplog.text
        assert await peer.answers() == [(1, "g")]
        assert await other.asked(1) == [1]


async def test_an_internal_error_in_a_waiting_request_ends_only_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def break_down() -> None:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("ours")

    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        handle = served.dispatcher.handle
        served.dispatcher.present[API.key] = lambda client, request: (
            break_down() if request.correlation_id == 2 else handle(client, request)
        )
        peer.send(1, 2, 3)
        await peer.end()
        assert "ZeroDivisionError: ours" in caplog.text
        assert await peer.answers() == [(1, "g1")]
        assert await other.asked(1) == [1]


async def test_closing_a_watched_connection_ends_it() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.connection.close()
        peer.connection.close()
        await peer.end()
        assert len(served.ready) == 0


@pytest.mark.parametrize("key", ["g{}", "pass{}", "silent{}"])
async def test_a_connection_may_be_closed_during_its_own_or_another_request(key: str) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(4)]

        def close(key: str) -> None:
            for peer in peers[:3]:
                peer.connection.close()

        served.dispatcher.meanwhile = close
        for number, peer in enumerate(peers):
            peer.send(number, keys=key)
        for peer in peers[:3]:
            await peer.end()
            assert await peer.answers() == []
        served.dispatcher.meanwhile = lambda key: None
        assert len(await peers[3].answers()) == ("silent" not in key)
        assert await peers[3].asked(2) == [2]
        assert len(served.ready) == 1


async def test_a_connection_closed_after_its_request_gets_no_response(
    still: None,
) -> None:
    async with serving() as served:
        peers = [await served.watched() for _ in range(4)]
        seen: list[int] = []

        def close_the_one_before(key: str) -> None:
            if seen:
                peers[seen[-1]].connection.close()
            seen.append(int(key[1:]))

        served.dispatcher.meanwhile = close_the_one_before
        for number, peer in enumerate(peers):
            peer.send(number)
        for number in range(4):
            assert await peers[number].answers() == ([(number, f"g{number}")] if number == seen[-1] else [])
        assert len(served.ready) == 1


async def test_a_connection_closed_in_the_queue_is_not_dispatched(still: None) -> None:
    """The next request of the connection has been read already."""
    async with serving() as served:
        closing, peer = await served.watched(), await served.watched()
        served.dispatcher.meanwhile = lambda key: peer.connection.close() if key == "close" else None
        closing.socket.sendall(request(1) + request(2, "close"))
        peer.socket.sendall(request(1, "first") + request(2, "not any more"))
        await peer.end()
        assert served.dispatcher.asked == ["g", "first", "close"]
        assert await closing.answers() == [(1, "g"), (2, "close")]
        assert await peer.answers() == [(1, "first")]


@pytest.mark.parametrize("key", ["later", "pass", "later silent"])
@pytest.mark.parametrize("is_produced", [False, True])
async def test_a_waiting_request_does_not_start_on_a_closed_connection(
    still: None, key: str, is_produced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Another request of the same slice closes it. A coroutine that is dropped without being closed would be an error here."""
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        served.dispatcher.meanwhile = lambda key: peer.connection.close() if key == "close" else None
        peer.socket.sendall(produce(1, key, b"abc") if is_produced else request(1, key))
        other.send(1, keys="close")
        await peer.end()
        assert served.dispatcher.asked == [key, "close"]
        assert served.dispatcher.begun == []
        assert await other.answers() == [(1, "close")]
        assert caplog.records == []


async def test_a_request_waiting_for_a_slot_does_not_start_after_closing() -> None:
    async with serving() as served:
        served.shares.response_slots[API.key] = RequestMemory(1)
        peers = [await served.watched() for _ in range(4)]
        for number, peer in enumerate(peers):
            peer.send(number, keys="later{}")
            await trio.testing.wait_all_tasks_blocked()
        begun = len(served.dispatcher.begun)
        assert len(served.dispatcher.asked) == 4 > begun
        peers[3].connection.close()
        await peers[3].end()
        served.dispatcher.may_answer.set()
        for number, peer in enumerate(peers[:3]):
            assert await peer.answers() == [(number, f"later{number}")]
        assert served.dispatcher.begun == ["later0", "later1", "later2"]


async def test_a_waiting_request_does_not_start_if_its_handler_closes_the_connection(still: None) -> None:
    async with serving() as served:
        peer = await served.watched()
        served.dispatcher.meanwhile = lambda key: peer.connection.close()
        peer.send(1, keys="pass")
        await peer.end()
        assert served.dispatcher.begun == []


@pytest.mark.parametrize("key", ["later", "pass"])
async def test_a_waiting_request_ends_with_its_task(still: None, key: str) -> None:
    """The task is cancelled in the slice of the request, and once it waits."""
    for is_begun in (False, True):
        async with serving() as served:
            peer = await served.watched()
            if is_begun:
                peer.send(1, keys="later")
                await trio.testing.wait_all_tasks_blocked()
                assert served.dispatcher.begun == ["later"]
                served._nursery.cancel_scope.cancel()
            else:
                served.dispatcher.meanwhile = lambda key: served._nursery.cancel_scope.cancel()
                peer.send(1, keys=key)
        assert len(served.ready) == 0


async def test_a_parked_task_can_be_cancelled() -> None:
    async with serving() as served:
        await served.watched()
        assert len(served.ready) == 1
    assert len(served.ready) == 0


@pytest.mark.parametrize("key", ["stop{}", "pass stop{}", "big stop{}"])
async def test_a_stopping_node_accepts_no_further_request(key: str) -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()

        def stop(asked: str) -> None:
            served.dispatcher.takes_requests = asked != key.format(2)

        served.dispatcher.meanwhile = stop
        peer.send(1, 2, 3, keys=key)
        found = []
        while not peer.has_ended.is_set():
            await trio.lowlevel.checkpoint()
            found += peer.received()
        found += peer.received()
        assert served.dispatcher.asked == [key.format(1), key.format(2)]
        assert [number for number, _ in found] in ([1, 2], [1])
        # Its coroutine may not have begun.
        assert key.startswith("pass") or len(found) == 2
        other.send(1)
        await other.end()
        assert await other.answers() == []


async def test_a_response_is_sent_completely_although_the_node_stops(still: None) -> None:
    """The socket has no room for all of it when the node stops."""
    async with serving() as served:
        peer = await served.watched()
        peer.connection._transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

        def stop(key: str) -> None:
            served.dispatcher.takes_requests = False

        served.dispatcher.meanwhile = stop
        peer.send(1, keys="big")
        assert await peer.answers() == [(1, "big" + "x" * LARGE_ANSWER)]
        await peer.end()


async def test_responses_and_requests_keep_a_connection_from_being_idle(
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
        assert await peer.asked(1, keys="silent") == []
        assert peer.connection.idle_s(trio.current_time()) == 0


@pytest.mark.parametrize("key", ["g", "pass", "silent", "produce", "break", "close", "later"])
async def test_a_disconnected_connection_is_freed_at_once(still: None, key: str) -> None:
    async with serving() as served:
        gc.collect()
        gc.disable()
        logging.disable()
        try:
            peer = await served.watched()
            known = weakref.ref(peer.connection)

            def end(asked: str) -> None:
                connection = known()
                if asked == "break":
                    raise ZeroDivisionError("ours")
                if asked == "close" and connection is not None:
                    connection.close()

            served.dispatcher.meanwhile = end
            if key == "later":
                peer.send(1, keys=key)
                await trio.testing.wait_all_tasks_blocked()
                served.dispatcher.may_answer.set()
            elif key == "produce":
                peer.socket.sendall(produce(1, "pass", b"abc"))
                assert len(await peer.answers()) == 1
            else:
                await peer.asked(1, keys=key)
            peer.connection.close()
            await peer.end()
            served.dispatcher.meanwhile = lambda key: None
            del peer
            await trio.testing.wait_all_tasks_blocked()
            assert known() is None
        finally:
            logging.disable(logging.NOTSET)
            gc.enable()


async def test_a_connection_closed_during_its_task_is_not_watched_again() -> None:
    """Another connection may have its descriptor by then."""
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, 2, keys="later")
        await trio.testing.wait_all_tasks_blocked()
        peer.connection.close()
        assert len(served.ready) == 0
        served.dispatcher.may_answer.set()
        await peer.end()
        assert len(served.ready) == 0


# Everything at random

CONNECTIONS, SEEDS = 25, 8
ANSWERS = size(2_000, 50_000)


KINDS = {"now": 8, "pass": 2, "later": 2, "silent": 1, "pass silent": 1, "produce": 3, "many": 1}


def pipeline(chance: random.Random, count: int) -> tuple[list[bytes], list[tuple[int, str]]]:
    """Return requests with `count` answers, and these answers."""
    data, answers, number = list[bytes](), list[tuple[int, str]](), 0
    while len(answers) < count:
        number += 1
        (kind,) = chance.choices([*KINDS], [*KINDS.values()])
        size_bytes = chance.choices((0, chance.randint(1, 100), 3_000, 20_000), (30, 30, 5, 1))[0]
        if kind == "produce":
            key, records = chance.choice(("now", "pass", "later")) + f" {number}", chance.randbytes(size_bytes)
            data.append(produce(number, key, records))
            answers.append((number, produced(key, records)))
            continue
        if kind == "many":
            keys = (f"now {number}", *chance.choices(["a", "bc"], k=READ_ELEMENTS_AT_ONCE))
            data.append(ask_for(number, keys))
            answers.append((number, ",".join(keys)))
            continue
        key = f"{kind} {number} " + chance.choice("abc") * size_bytes
        data.append(request(number, key))
        if "silent" not in kind:
            answers.append((number, key))
    return data, answers


async def send_in_pieces(stream: trio.abc.Stream, requests: list[bytes], chance: random.Random) -> None:
    """Send pieces of any size, or nearly every request alone."""
    most_bytes = chance.choice((50, 2_000, 100_000, 0, 0, 0))
    data, ends = b"".join(requests), iter(accumulate(map(len, requests)))
    at = end = 0
    while at < len(data):
        if most_bytes:
            end = at + chance.randint(1, most_bytes)
        elif at == end:
            end = next(ends)
        cut = chance.randint(at + 1, end) if chance.random() < 0.1 else end
        await stream.send_all(data[at:cut])
        at = cut
        for _ in range(chance.randint(0, 3 if most_bytes else 10)):
            await trio.lowlevel.checkpoint()


async def receive_all(stream: trio.abc.Stream, answers: list[tuple[int, str]], chance: random.Random) -> None:
    """Read slowly or fast; the answers must be these, in this order."""
    most_bytes, pause = chance.choice(((500, 4), (5_000, 1), (1 << 20, 0)))
    received, found = bytearray(), 0
    while found < len(answers):
        for _ in range(chance.randint(0, pause)):
            await trio.lowlevel.checkpoint()
        data = await stream.receive_some(chance.randint(1, most_bytes))
        assert data, f"closed after {found} of {len(answers)} answers"
        received += data
        for answer in parsed(received):
            assert answer == answers[found]
            found += 1
    assert not received


async def exchange(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    connections: int,
    answers: int,
    connect: Callable[[Served], Awaitable[trio.abc.Stream]],
) -> None:
    """Let `connections` clients receive `answers` answers in total, concurrently."""
    chance, turn_s = random.Random(seed), time_slices.SLICE_S
    asked = 0
    async with serving() as served, trio.open_nursery() as nursery:

        async def let_answer() -> None:
            while True:
                for _ in range(chance.randint(1, 10)):
                    await trio.lowlevel.checkpoint()
                served.dispatcher.may_answer.set()
                served.dispatcher.may_answer = trio.Event()

        async def be_a_client(seed: int, count: int) -> None:
            nonlocal asked
            own = random.Random(seed)
            requests, expected = pipeline(own, count)
            stream = await connect(served)
            async with trio.open_nursery() as both:
                both.start_soon(receive_all, stream, expected, random.Random(seed))
                await send_in_pieces(stream, requests, own)
            if isinstance(stream, trio.SocketStream):
                await stream.send_eof()
                assert await stream.receive_some() == b""  # nothing more
            await stream.aclose()
            asked += len(requests)

        def disturb(_: str) -> None:
            monkeypatch.setattr(time_slices, "SLICE_S", chance.choice((0, turn_s / 30, turn_s)))
            if chance.random() < 0.005:  # a thread must make this one again
                spoken_module._SPOKEN.pop(chance.choice([*spoken_module._SPOKEN]), None)

        served.dispatcher.meanwhile = disturb
        nursery.start_soon(let_answer)
        with trio.fail_after(size(60, 600)):
            async with trio.open_nursery() as clients:
                shares = sorted(chance.randrange(answers) for _ in range(connections - 1))
                for begin, end in zip([0, *shares], [*shares, answers], strict=True):
                    clients.start_soon(be_a_client, chance.getrandbits(32), end - begin)
        nursery.cancel_scope.cancel()
        # A last request without an answer is executed as well; over TLS that may happen after the client has gone.
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.dispatcher.asked) == asked


async def plainly(served: Served) -> trio.abc.Stream:
    peer = served.connect()
    for sock in (peer.socket, peer.connection._transport._sock):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    return trio.SocketStream(trio.socket.from_stdlib_socket(peer.socket))


@pytest.mark.parametrize("number", range(SEEDS))
async def test_each_client_gets_exactly_its_responses_in_order(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    seed = random.getrandbits(32) if FULL else number
    with noted(seed):
        await exchange(monkeypatch, seed, CONNECTIONS, ANSWERS // SEEDS, plainly)


def over_tls(directory: Path) -> Callable[[Served], Awaitable[trio.abc.Stream]]:
    from support.security.certificates import client_security, inline, server

    tls_options = inline(server())
    from ottla.server.security.tls.contexts import ListenerTls, make_context
    from ottla.server.security.tls.settings import tls_settings

    tls = ListenerTls(make_context(tls_settings(BrokerConfig.from_texts(tls_options), "SSL")))
    listener = Listener("SSL", "127.0.0.1", 0, "127.0.0.1", 0, tls=tls)
    security = client_security(directory).tls
    assert security is not None

    async def connect(served: Served) -> trio.abc.Stream:
        peer = served.connect(listener, lambda sock: TlsTransport(sock, tls.present.context))
        for sock in (peer.socket, peer.connection._transport._sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        plain = trio.SocketStream(trio.socket.from_stdlib_socket(peer.socket))
        stream = trio.SSLStream(plain, security, server_hostname="localhost", https_compatible=True)
        await stream.do_handshake()
        return stream

    return connect


async def test_each_client_gets_exactly_its_responses_in_order_over_tls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await exchange(monkeypatch, 1, 6, size(100, 1_000), over_tls(tmp_path))


async def test_a_response_over_tls_is_completed_on_a_full_socket(tmp_path: Path) -> None:
    async with serving() as served:
        stream = await over_tls(tmp_path)(served)
        for number in range(3):
            await stream.send_all(request(number, "big"))
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(60):
                await receive_all(stream, [(number, "big" + "x" * LARGE_ANSWER)], random.Random(1))
        await stream.aclose()


async def test_a_client_that_disconnects_inside_a_tls_record_is_closed(tmp_path: Path) -> None:
    """The client's last bytes and its end are one event, and the bytes contain no complete record."""
    async with serving() as served:
        stream = await over_tls(tmp_path)(served)
        assert isinstance(stream, trio.SSLStream)
        await stream.send_all(request(1))
        with trio.fail_after(60):
            await receive_all(stream, [(1, "g")], random.Random(1))
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.ready) == 1
        plain = stream.transport_stream
        os.write(plain.socket.fileno(), b"\x17\x03\x03\x40\x00" + bytes(10))  # and no checkpoint before its end
        plain.socket.shutdown(socket.SHUT_WR)
        await trio.testing.wait_all_tasks_blocked()
        assert len(served.ready) == 0
        await plain.aclose()


async def test_an_accepted_request_is_completed_although_the_node_stops() -> None:
    async with serving() as served:
        peer = await served.watched()

        def stop(key: str) -> None:
            served.dispatcher.takes_requests = False

        served.dispatcher.meanwhile = stop
        served.dispatcher.may_answer.set()
        peer.send(1, keys="later{}")
        with trio.fail_after(60):
            await peer.has_ended.wait()
        assert await peer.answers() == [(1, "later1")]


async def test_a_frame_frees_its_memory_before_its_response_is_read() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.connection._transport._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        peer.socket.sendall(produce(1, "now" + "x" * 30_000, b"r" * 1_000))
        await trio.testing.wait_all_tasks_blocked()
        assert peer.connection.busy, "the answer has not been taken"
        assert peer.connection._frames.held_bytes and peer.connection._frames.is_receiving


class Broken:
    """A file that the disk fails to read."""

    def read_now(self, position: int, size_bytes: int) -> bytes:
        raise OSError(errno.EIO, "the disk")


async def test_an_unreadable_file_ends_the_response_without_a_broker_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport = PlainTransport(ours)
        with pytest.raises(trio.BrokenResourceError, match="the disk"):
            transport.send_now([b"head", FileSlice(cast(Any, Broken()), 0, 100)])


class Known(OsFile):
    """A file of which all bytes are known to be in memory, or none."""

    is_cached = True

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        return size_bytes if self.is_cached else 0


BYTES = random.Random(1).randbytes((3 << 20) + 100)

RESPONSES: dict[str, tuple[list[bytes | int], list[int]]] = {
    "file at the end": ([b"head", 900_000], []),
    "file in the middle": ([b"head", 900_000, b"tail"], []),
    "two files": ([b"head", 200_000, b"between", 100_000], []),
    "larger than one call": ([b"head", 3 << 20], [(3 << 20) - SEND_BYTES]),
    "more parts than FEW_BUFFERS": ([b"head", 200_000, b"between", 100_000, b"tail"], [4, 200_000, 7, 100_000, 4]),
}
"""Parts, of which a number is a slice of a file with as many bytes, and the sizes of what `send_now` returns to a fast reader."""


@pytest.mark.parametrize("name", RESPONSES)
@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("is_cached", [True, False])
async def test_large_slices_are_sent_without_a_task(tmp_path: Path, name: str, is_fast: bool, is_cached: bool) -> None:
    sizes, left = RESPONSES[name]
    (tmp_path / "log").write_bytes(BYTES)
    file = Known(os.open(tmp_path / "log", os.O_RDONLY))
    file.is_cached = is_cached
    parts: list[Part] = []
    for each in sizes:
        parts.append(FileSlice(file, len(parts) * 10, each) if isinstance(each, int) else each)
    expected = b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20 if is_fast else 4_096)
        transport = PlainTransport(ours)
        rest = transport.send_now(parts)
        if not is_cached:
            assert [len(part) for part in rest] == [len(part) for part in parts][-len(rest) :]
            assert isinstance(rest[0], FileSlice) or len(parts) > FEW_BUFFERS
        elif is_fast:
            assert [len(part) for part in rest] == left
        else:
            assert rest and sum(map(len, rest)) >= sum(left)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, rest)
            received, reader = bytearray(), trio.socket.from_stdlib_socket(theirs)
            with trio.fail_after(60):
                while len(received) < len(expected):
                    received += await reader.recv(1 << 20)
        assert received == expected
    file.close()


async def test_a_file_that_has_become_shorter_ends_the_response(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(100_000))
    file = Known(os.open(tmp_path / "log", os.O_RDONLY))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        transport = PlainTransport(ours)
        rest = transport.send_now([b"head", FileSlice(file, 0, 200_000)])
        assert [len(part) for part in rest] == [100_000]
        with pytest.raises(trio.BrokenResourceError, match="file ended 100000 bytes before"):
            await transport.send(rest)
    file.close()


# Responses that wait for a change


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_held_response_waits_without_a_task_while_others_are_served(is_first: bool) -> None:
    async with serving() as served:
        peer, other = served.connect() if is_first else await served.watched(), await served.watched()
        assert await peer.asked(1, keys="held{}") == []
        with steps_of(CONNECTION) as steps:
            assert await other.asked(2) == [2]
            (held,) = served.dispatcher.held
            held.end()
            assert await peer.answers() == [(1, "held1")]
            assert await peer.asked(3, 4) == [3, 4]
        assert (steps.count, held.has_left) == (0, True)


async def test_the_next_request_ends_the_wait_and_answers_keep_their_order() -> None:
    async with serving() as served:
        peer = await served.watched()
        for number in range(0, 9, 3):
            peer.send(number, keys="held{}")
            assert await peer.answers() == []
            assert await peer.asked(number + 1, number + 2) == [number, number + 1, number + 2]
        assert [held.has_left for held in served.dispatcher.held] == [True] * 3


async def test_a_wait_that_does_not_give_way_keeps_later_requests_waiting() -> None:
    async with serving() as served:
        peer, other = await served.watched(), await served.watched()
        peer.send(1, keys="held{}")
        assert await peer.answers() == []
        served.dispatcher.held[0].gives_way = False
        peer.send(2)
        assert await other.asked(3) == [3]
        assert await peer.answers() == []
        served.dispatcher.held[0].end()
        assert await peer.answers() == [(1, "held1"), (2, "g2")]


async def test_a_wait_that_is_over_before_it_begins_is_answered_once() -> None:
    async with serving() as served:
        peer = await served.watched()
        served.dispatcher.is_over_at_once = True
        assert await peer.asked(1, 2, keys="held{}") == [1, 2]


@pytest.mark.parametrize("is_run", [True, False])
async def test_a_response_is_not_held_if_more_is_there_or_would_not_be_noticed(is_run: bool) -> None:
    async with serving(is_run=is_run) as served:
        peer = served.connect()
        numbers = [1, 2, 3] if is_run else [1]
        peer.socket.sendall(b"".join(request(number, f"held{number}" if number < 3 else "g") for number in numbers))
        assert [number for number, _ in await peer.answers()] == numbers
        assert all(not held.has_begun for held in served.dispatcher.held)


@pytest.mark.parametrize("waits", [False, True])
async def test_after_a_change_the_new_response_is_sent(waits: bool) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="held{}")
        assert await peer.answers() == []
        changed = FindCoordinatorResponse(host="pass" if waits else "new")
        dispatcher = served.dispatcher
        dispatcher.changed = dispatcher._waited(peer.connection, "pass", changed) if waits else changed
        dispatcher.held[0].change()
        assert await peer.answers() == [(1, changed.host)]
        assert await peer.asked(2) == [2]


@pytest.mark.parametrize("is_ours", [False, True])
async def test_the_end_of_a_connection_ends_the_wait(is_ours: bool) -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="held{}")
        assert await peer.answers() == []
        if is_ours:
            peer.connection.close()
        else:
            peer.socket.close()
        await peer.end()
        assert served.dispatcher.held[0].has_left


async def test_an_end_that_comes_with_the_next_request_sends_one_answer() -> None:
    async with serving() as served:
        peer = await served.watched()
        peer.send(1, keys="held{}")
        assert await peer.answers() == []
        peer.send(2)
        served.dispatcher.held[0].end()
        assert await peer.answers() == [(1, "held1"), (2, "g2")]
