"""Limits with names: each is kept, and what is within it goes on."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import trio

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.handlers.dispatch import ListenerDesk
from ottla.server.network.desk import Desk
from ottla.server.network.listener import Listener
from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import address, create_topic, fetch, produce
from support.broker.housekeeping import eventually
from support.broker.raw_client import RawClient
from support.broker.served import serving


def works(client: RawClient) -> bool:
    return bool(client.ask(MetadataRequest(topics=None)).error_code == ErrorCode.NONE)


def is_served(broker: ottla.Broker) -> bool:
    try:
        with RawClient(*address(broker)) as client:
            return works(client)
    except ConnectionError:
        return False


def test_no_more_connections_than_max_connections(tmp_path: Path) -> None:
    with (
        ottla.Broker(str(tmp_path), overrides={"max.connections": "2"}) as broker,
        RawClient(*address(broker)) as first,
        RawClient(*address(broker)) as second,
    ):
        assert works(first) and works(second)
        with RawClient(*address(broker)) as third:
            third.send(MetadataRequest(topics=None))
            assert works(first) and works(second)
            assert third.is_open()
            first.close()
            assert third.receive().error_code == ErrorCode.NONE


def test_no_more_connections_from_one_host_than_max_connections_per_ip(tmp_path: Path) -> None:
    overrides = {"max.connections.per.ip": "5", "max.connections.per.ip.overrides": "127.0.0.1:1"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker:
        with RawClient(*address(broker)) as first:
            assert works(first)
            with RawClient(*address(broker)) as second:
                assert second.is_closed_by_peer()
        # The place is free once the broker has seen the first one go.
        assert any(is_served(broker) for _ in range(1000))


def test_a_frame_of_socket_request_max_bytes_is_the_largest(tmp_path: Path) -> None:
    overrides = {"socket.request.max.bytes": "20000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        assert produce(client, "t", ("k", "v" * 19_000)).error_code == ErrorCode.NONE
        client.send_bytes((20_001).to_bytes(4, "big"))
        assert client.is_closed_by_peer()


def test_connections_share_one_budget_for_large_frames(tmp_path: Path) -> None:
    """Ten producers of 300 kB on room for two: all are served, some have to wait."""
    overrides = {"queued.max.request.bytes": "700000", "socket.request.max.bytes": "700000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker:
        clients = [RawClient(*address(broker)) for _ in range(10)]
        create_topic(clients[0], "t")
        offsets = [produce(client, "t", ("k", "v" * 300_000)).base_offset for client in clients for _ in range(2)]
        assert offsets == list(range(20))
        for client in clients:
            client.close()


def test_an_idle_connection_is_closed_after_connections_max_idle_ms(tmp_path: Path) -> None:
    overrides = {"connections.max.idle.ms": "1"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        assert works(client)
        assert eventually(broker, lambda: not len(broker.inner.connections))
        assert client.is_closed_by_peer()


def test_moving_the_clock_costs_no_connection(broker: ottla.Broker, client: RawClient) -> None:
    assert works(client)
    for _ in range(3):
        broker.advance_clock(86_400_000)
        assert works(client)


def test_one_answer_holds_no_more_records_than_fetch_max_bytes(tmp_path: Path) -> None:
    overrides = {"fetch.max.bytes": "3000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        for _ in range(10):
            produce(client, "t", ("k", "v" * 1000))
        assert len(fetch(client, "t", 0).records or b"") < 3000


class WithoutOptions(socket.socket):
    """Whose peer has gone, on a system that then takes no options."""

    def setsockopt(self, *_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


class Troubled(socket.socket):
    """A listening socket with what the network has done to the first connections."""

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.family, listening.type, listening.proto, listening.detach())
        self.setblocking(False)
        self.errors = [errno.EPROTO, errno.ENETUNREACH, errno.EMFILE]
        self.is_left_alone = False

    def accept(self) -> tuple[socket.socket, object]:
        if self.errors:
            raise OSError(self.errors.pop(), "")
        taken, peer = super().accept()
        if self.is_left_alone:
            return taken, peer
        self.is_left_alone = True
        return WithoutOptions(fileno=taken.detach()), peer


async def test_a_connection_that_cannot_be_taken_is_nobody_elses_affair(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served, trio.open_nursery() as nursery:
        broker = served.broker
        listener = Listener.of(broker.config.current.listener_configs[0])
        listener.bind(10)
        assert listener.socket is not None
        listener.socket = Troubled(listener.socket)
        desk: Desk = ListenerDesk(broker.handlers, broker.services, broker.nodes[0], listener)
        nursery.start_soon(broker.connections.accept_on, listener, desk, nursery)
        with await trio.to_thread.run_sync(RawClient, "127.0.0.1", listener.port) as gone:
            assert await trio.to_thread.run_sync(gone.is_closed_by_peer)
        with await trio.to_thread.run_sync(RawClient, "127.0.0.1", listener.port) as client:
            assert await trio.to_thread.run_sync(works, client)
        listener.close()
        nursery.cancel_scope.cancel()
