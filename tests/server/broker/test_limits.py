"""Limits with names: each is kept, and clients within it are not disturbed."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest
import trio

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as Replaced
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.config.resources import ConfigResourceType
from ottla.server.handlers.dispatch import ListenerDispatcher
from ottla.server.network.dispatcher import RequestDispatcher
from ottla.server.network.listener import Listener
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.topics.config import ConfigError
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, fetch, produce
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
        # The place is free once the broker has seen the first client disconnect.
        assert any(is_served(broker) for _ in range(1000))


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="a machine without IPv6")
def test_an_address_of_ipv4_counts_as_one_by_whatever_socket_it_comes(tmp_path: Path) -> None:
    overrides = {
        "listeners": "PLAINTEXT://127.0.0.1:0,ALL://[::]:0",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:9092,ALL://127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ALL:PLAINTEXT",
        "max.connections.per.ip": "1",
    }
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker:
        one, other = [("127.0.0.1", listener.port) for listener in broker.inner.nodes[0].listeners]
        with RawClient(*one) as first:
            assert works(first)
            with RawClient(*other) as second:
                assert second.is_closed_by_peer()


PER_IP, OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
NO_HOST = "no..host"
"""A name that no name server has to be asked about."""


def alter(client: RawClient, node: str, **configs: str) -> tuple[int, str | None]:
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name=node,
        configs=tuple(
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        ),
    )
    [row] = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    return row.error_code, row.error_message


def test_an_exception_from_max_connections_per_ip_may_name_a_host(tmp_path: Path) -> None:
    overrides = {PER_IP: "1", OVERRIDES: "localhost:2, 10.0.0.1:5"}
    with (
        ottla.Broker(str(tmp_path), overrides=overrides) as broker,
        RawClient(*address(broker)) as first,
        RawClient(*address(broker)) as second,
    ):
        assert works(first) and works(second)
        with RawClient(*address(broker)) as third:
            assert third.is_closed_by_peer()


def test_a_host_that_there_is_not_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{OVERRIDES}: '{NO_HOST}' is not an address"):
        ottla.Broker(str(tmp_path), overrides={OVERRIDES: f"{NO_HOST}:2"}).start()
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        code, message = alter(client, "", max_connections_per_ip_overrides=f"localhost:1,{NO_HOST}:2")
        assert (code, NO_HOST in str(message)) == (ErrorCode.INVALID_REQUEST, True)
        with RawClient(*address(broker)) as second:
            assert works(second)
        assert alter(client, "", max_connections_per_ip_overrides="localhost:1") == (ErrorCode.NONE, None)
        with RawClient(*address(broker)) as second:
            assert second.is_closed_by_peer()


def test_what_is_unset_by_not_being_named_shows_no_host_that_there_is_not(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as client:
        assert alter(client, "0", max_connections_per_ip_overrides="localhost:9") == (ErrorCode.NONE, None)
        # After the node's own entries.
        assert alter(client, "", max_connections_per_ip_overrides=f"{NO_HOST}:2") == (ErrorCode.NONE, None)
        nothing = AlterConfigsRequest(resources=(Replaced(resource_type=ConfigResourceType.BROKER, resource_name="0"),))
        [row] = client.ask(nothing).responses
        assert (row.error_code, NO_HOST in str(row.error_message)) == (ErrorCode.INVALID_REQUEST, True)


def test_nobody_waits_for_a_resolver_who_changes_something_else(tmp_path: Path) -> None:
    with (
        ottla.Broker(str(tmp_path)) as broker,
        RawClient(*address(broker)) as client,
        RawClient(*address(broker)) as other,
    ):
        resolving, taken = broker.inner._hosts._resolving, object()

        async def take() -> None:
            resolving.total_tokens = 1
            await resolving.acquire_on_behalf_of(taken)

        async def give() -> None:
            resolving.release_on_behalf_of(taken)

        broker.run(take)
        change = AlterableConfig(name=OVERRIDES, config_operation=0, value="localhost:9")
        resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="", configs=(change,))
        client.send(IncrementalAlterConfigsRequest(resources=(resource,)))
        assert eventually(broker, lambda: resolving.statistics().tasks_waiting == 1)
        create_topic(other, "t")
        broker.run(give)
        assert client.receive().responses[0].error_code == ErrorCode.NONE


def test_each_node_has_limits_of_its_own(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=2) as broker:
        nodes = [("127.0.0.1", node.listeners[0].port) for node in broker.inner.nodes]
        with RawClient(*nodes[0]) as here, RawClient(*nodes[1]) as there:
            assert alter(there, "1", max_connections_per_ip="1") == (ErrorCode.NONE, None)
            with RawClient(*nodes[0]) as second, RawClient(*nodes[1]) as refused:
                assert works(here) and works(second)
                assert refused.is_closed_by_peer()


def test_connections_are_counted_by_listener_and_address(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path)) as broker, RawClient(*address(broker)) as first:
        assert works(first)
        with RawClient(*address(broker)) as second:
            assert works(second)
        assert eventually(broker, lambda: len(broker.inner.connections) == 1)
        told = {
            name.partition("name=")[2].partition(",node=0")[0]: value
            for name, value in broker.metrics().items()
            if "socket-server-metrics" in name
        }
    assert told.pop("connection-accept-rate,listener=PLAINTEXT") == told.pop("broker-connection-accept-rate") > 0
    assert told == {
        "connection-count,listener=PLAINTEXT": 1,
        "connection-creation-total,listener=PLAINTEXT": 2,
        "connection-close-total,listener=PLAINTEXT": 1,
        "connection-accept-throttle-time,listener=PLAINTEXT": 0,
        "ip-connection-accept-throttle-time,listener=PLAINTEXT": 0,
        "ip-connection-count,ip=127.0.0.1": 1,
    }


def test_a_frame_of_socket_request_max_bytes_is_the_largest(tmp_path: Path) -> None:
    overrides = {"socket.request.max.bytes": "20000"}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        assert produce(client, "t", ("k", "v" * 19_000)).error_code == ErrorCode.NONE
        client.send_bytes((20_001).to_bytes(4, "big"))
        assert client.is_closed_by_peer()


def test_connections_share_one_budget_for_large_frames(tmp_path: Path) -> None:
    """Ten producers of 300 kB have memory for two: all are served, some have to wait."""
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
    """A socket whose peer has disconnected, on a system that then refuses socket options."""

    def setsockopt(self, *_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")


class Troubled(socket.socket):
    """A listening socket whose first connections have network errors."""

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
        listener = Listener.from_config(broker.config.current.listener_configs[0])
        listener.bind(10)
        (plain,) = listener.sockets
        troubled = Troubled(plain)
        listener.sockets = (troubled,)
        dispatcher: RequestDispatcher = ListenerDispatcher(broker.handlers, broker.services, broker.nodes[0], listener)
        nursery.start_soon(broker.connections.accept_on, troubled, listener, dispatcher, nursery)
        with await trio.to_thread.run_sync(RawClient, "127.0.0.1", listener.port) as gone:
            assert await trio.to_thread.run_sync(gone.is_closed_by_peer)
        with await trio.to_thread.run_sync(RawClient, "127.0.0.1", listener.port) as client:
            assert await trio.to_thread.run_sync(works, client)
        listener.close()
        nursery.cancel_scope.cancel()
