"""Connections without cost for others: they announce, trickle, stand still, never read, come in hundreds."""

from __future__ import annotations

import gc
import logging
import os
import random
import socket
import struct
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.connection import encode_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import fields_of
from ottla.server import handlers
from ottla.server.network.connection import PRODUCE_KEY, Connection
from ottla.server.network.frames import INITIAL_BUFFER_BYTES, FrameReader
from ottla.server.network.request_memory import STANDS_STILL_S, RequestMemory
from ottla.server.network.transport import PlainTransport
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, fetch_request, produce
from support.broker.raw_client import RawClient
from support.sizes import size

MIB = 1 << 20


def frame(size_bytes: int) -> bytes:
    return struct.pack(">i", size_bytes) + bytes(size_bytes)


def settle(broker: ottla.Broker) -> None:
    """Return when every task of the broker waits for something from outside."""
    broker.run(trio.testing.wait_all_tasks_blocked)


# Memory


def living() -> int:
    return sum(isinstance(each, (Connection, FrameReader, PlainTransport)) for each in gc.get_objects())


def test_a_closed_connection_is_freed_without_cycle_collection(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        settle(broker)
        gc.collect()
        gc.disable()
        try:
            before, most = living(), 0
            for number in range(10):
                with RawClient(*address(broker)) as other:
                    assert produce(other, "t", ("k", "v" * 300_000 * (number % 2))).error_code == ErrorCode.NONE
                    assert other.ask(MetadataRequest(topics=None), 9).topics
                    most = max(most, living())
            assert most > before
            assert eventually(broker, lambda: len(broker.inner.connections) == 1)
            settle(broker)
            assert living() == before
        finally:
            gc.enable()


def test_hundreds_of_stalled_large_frames_do_not_stop_service(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        memory = broker.inner.shares.request_memory
        announcing = [socket.create_connection(address(broker)) for _ in range(100)]
        for number, each in enumerate(announcing):
            each.sendall(struct.pack(">i", 100 * MIB) + bytes(number % 3 * 20_000))
        settle(broker)
        assert memory.used_bytes <= 100 * 2 * 40_000
        assert produce(client, "t", ("k", "v" * 300_000)).error_code == ErrorCode.NONE
        for each in announcing:
            each.close()
        client.close()
        assert eventually(broker, lambda: not len(broker.inner.connections))
        assert memory.used_bytes == 0


def test_a_parked_request_holds_no_request_memory(tmp_path: Path) -> None:
    """The fetch of a few bytes in a frame of a megabyte waits for days, and one more byte follows."""
    overrides = {"queued.max.request.bytes": "2000000", "socket.request.max.bytes": "2000000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        parked = [socket.create_connection(address(broker)) for _ in range(5)]
        body = encode_request(APIS[1], 11, 1, "x", fetch_request("t", 0, max_wait_ms=2**31 - 1))
        for each in parked:
            each.sendall(struct.pack(">i", 800_000) + body[4:] + bytes(800_000 - len(body) + 4) + b"\0")
            assert produce_elsewhere(broker) == ErrorCode.NONE
            settle(broker)
        assert eventually(broker, lambda: broker.inner.shares.request_memory.used_bytes <= 2_000_000)
        for each in parked:
            each.close()


def produce_elsewhere(broker: ottla.Broker) -> int:
    with RawClient(*address(broker)) as client:
        create_topic(client, "other")
        return int(produce(client, "other", ("k", "v" * 900_000)).error_code)


def test_a_large_buffer_does_not_outlive_its_frame_in_a_waiting_connection(tmp_path: Path) -> None:
    """Any reference to the frame while the connection waits would keep its memory without counting it."""
    with ottla.Broker(str(tmp_path)) as broker:
        clients = [RawClient(*address(broker)) for _ in range(size(6, 8))]
        create_topic(clients[0], "t", max_message_bytes=20 * MIB)
        produce(clients[0], "t", ("k", "v" * 16 * MIB))
        before_bytes = resident_bytes()
        for client in clients:
            assert produce(client, "t", ("k", "v" * 16 * MIB)).error_code == ErrorCode.NONE
            client.send(MetadataRequest(topics=()), 12)
            client.receive()
        settle(broker)
        assert broker.inner.shares.request_memory.used_bytes == 0
        assert resident_bytes() - before_bytes < 64 * MIB
        for client in clients:
            client.close()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_only_produce_keeps_views_of_its_frame() -> None:
    assert [api.key for api in APIS.values() if "records" in kinds_in(api.request)] == [PRODUCE_KEY]
    assert APIS[PRODUCE_KEY].request is ProduceRequest


def kinds_in(cls: type) -> set[str]:
    """Return the names of all wire types in a message."""
    found: set[str] = set()
    waiting = [field.type for field in fields_of(cls)]
    while waiting:
        kind = waiting.pop()
        found.add(kind.name)
        if kind.item is not None:
            waiting.append(kind.item)
        if kind.struct is not None:
            waiting += [field.type for field in fields_of(kind.struct)]
    return found


class Sender(NamedTuple):
    """A client among many, which sends a frame of `size_bytes`."""

    kind: str
    address: str
    size_bytes: int


@pytest.mark.parametrize("seed", range(size(2, 10)))
async def test_every_sending_client_is_served_despite_all_others(
    autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    """In virtual time, a client that sends a frame as fast as it is read is answered within a minute."""
    rng = random.Random(seed)
    memory = RequestMemory(2 * MIB)
    kinds = ["sends", "announces", "stands still", "trickles", "leaves"]
    served: list[float] = []
    given_up: list[Sender] = []

    async def receive(sender: Sender, transport: PlainTransport) -> None:
        def give_up(_: str) -> None:
            given_up.append(sender)
            transport.close()
            reader.stop_waiting()

        reader = FrameReader(transport, MIB, memory, sender.address, give_up)
        began_s = trio.current_time()
        try:
            if await reader.next_frame() is not None and sender.kind == "sends":
                served.append(trio.current_time() - began_s)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            reader.close()
            transport.close()

    async def send(sender: Sender, client: trio.socket.SocketType) -> None:
        data = memoryview(frame(sender.size_bytes))
        try:
            match sender.kind:
                case "announces":
                    await client.send(data[:10])
                case "trickles":
                    for at in range(0, len(data), 1000):
                        await client.send(data[at : at + 1000])
                        await trio.sleep(1)
                case _:
                    end = len(data) if sender.kind == "sends" else rng.randrange(len(data))
                    at = 0
                    while at < end:
                        at += await client.send(data[at:end])
            if sender.kind != "leaves":
                await trio.sleep_forever()
        except OSError:
            pass
        finally:
            client.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        senders = [
            Sender(rng.choice(kinds), rng.choice("aaabc"), rng.randrange(INITIAL_BUFFER_BYTES, MIB)) for _ in range(60)
        ]
        for sender in senders:
            client, server = socket.socketpair()
            nursery.start_soon(receive, sender, PlainTransport(server))
            nursery.start_soon(send, sender, trio.socket.from_stdlib_socket(client))
            if rng.random() < 0.3:
                await trio.sleep(rng.uniform(0, 2))
        # The time that it takes to end those that stand still, one after the other beyond the limit.
        await trio.sleep(len(senders) * (STANDS_STILL_S + 2))
        nursery.cancel_scope.cancel()
    assert len(served) == sum(sender.kind == "sends" for sender in senders)
    assert not [sender for sender in given_up if sender.kind == "sends"]
    assert memory.used_bytes == 0 and memory.waiting == 0


# Idle


STILL_S = 0.02

MOVES = {
    "does nothing": False,
    "waits for its fetch": False,
    "stands still in a frame": False,
    "never reads its answer": False,
    "uploads slowly": True,
    "reads its answer slowly": True,
    "asks": True,
}
"""Connections, and whether bytes move on them between two checks."""


def test_only_moving_bytes_keep_a_connection_alive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Apache Kafka 4.3.1 was observed to do so with `connections.max.idle.ms=3000`."""
    # The broker itself checks none.
    with ottla.Broker(str(tmp_path), overrides={"connections.max.idle.ms": "-1"}) as broker:
        clients = {name: RawClient(*address(broker)) for name in MOVES}
        create_topic(clients["asks"], "t")
        for _ in range(16):  # more than the buffers of two sockets hold
            produce(clients["asks"], "t", ("k", "v" * 900_000))
        clients["asks"].ask(fetch_request("t", 0), 12)  # a thread loads the first request of an API
        clients["waits for its fetch"].send(fetch_request("t", 16, max_wait_ms=3_600_000), 12)
        for name in ("stands still in a frame", "uploads slowly"):
            clients[name].send_bytes(frame(100)[:50])
        for name in ("never reads its answer", "reads its answer slowly"):
            clients[name].send(fetch_request("t", 0, max_bytes=50 * MIB), 12)
        until_nothing_moves(broker)
        assert len(broker.inner.connections) == len(MOVES)

        clients["uploads slowly"].send_bytes(b"\0")
        clients["asks"].ask(MetadataRequest(topics=()), 12)
        left_bytes = 6 * MIB
        while left_bytes > 0:
            left_bytes -= len(clients["reads its answer slowly"]._socket.recv(MIB))
        with caplog.at_level(logging.INFO):
            close_idle_for(broker, 0)
        for name, moves in MOVES.items():
            peer = "{}:{}".format(*clients[name]._socket.getsockname())
            assert (f"closing {peer}: idle" not in caplog.text) == moves, name
        assert clients["waits for its fetch"].is_closed_by_peer()
        assert works(clients["asks"])
        for client in clients.values():
            client.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def until_nothing_moves(broker: ottla.Broker) -> None:
    """Return when all requests have arrived, and sockets accept no more of the answers."""
    while True:
        close_idle_for(broker, 3_600_000)  # notes what has moved up to now
        broker.run(partial(trio.testing.wait_all_tasks_blocked, STILL_S))
        if not any(connection._transport.has_moved for connection in broker.inner.connections):
            return


def close_idle_for(broker: ottla.Broker, max_idle_ms: int) -> None:
    settle(broker)

    async def once() -> None:
        await broker.inner.connections.close_idle(max_idle_ms)

    broker.run(once)


def works(client: RawClient) -> bool:
    return bool(client.ask(MetadataRequest(topics=()), 12).error_code == ErrorCode.NONE)


def test_a_connection_closed_by_us_has_no_peer() -> None:
    """A parked request checks its client, whose connection may have been closed as idle."""
    client, server = socket.socketpair()
    with client:
        transport = PlainTransport(server)

        async def close() -> None:
            assert not transport.is_closed_by_peer()
            transport.close()

        trio.run(close)
        assert transport.is_closed_by_peer()


def test_other_clients_are_served_while_an_api_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first request of groups imports their coordinator; another client sends a request to existing topics during that."""
    loading, may_go_on = threading.Event(), threading.Event()

    def load(_: int) -> None:
        loading.set()
        assert may_go_on.wait(60)

    with (
        ottla.Broker(str(tmp_path)) as broker,
        RawClient(*address(broker)) as first,
        RawClient(*address(broker)) as other,
    ):
        other.ask(MetadataRequest(topics=()), 12)
        monkeypatch.setattr(handlers, "load", load)
        monkeypatch.setattr(handlers, "_LOADED", set())
        first.send(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert loading.wait(60)
        other.ask(MetadataRequest(topics=()), 12)
        may_go_on.set()
        assert first.receive().coordinators[0].error_code == ErrorCode.NONE
