"""A listener of several addresses through several runs of its broker, and clients of both address families."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.control.connections import list_connections
from ottla.server.control.groups import describe_group
from support.broker.raw_client import RawClient

LOOPBACKS = ("127.0.0.1", "::1")
MAPPED = "::ffff:127.0.0.1"
"""IPv4 from an IPv6 socket: a broker at all interfaces gets this as the address of an IPv4 client."""


def has(host: str) -> bool:
    with suppress(OSError), socket.create_server((host, 0), family=socket.AF_INET6):
        return True
    return False


pytestmark = pytest.mark.skipif(not has("::1"), reason="needs ::1")


def ports(broker: ottla.Broker) -> list[int]:
    return [int(each.rpartition(":")[2]) for each in broker.bootstrap.split(",")]


def serves(host: str, port: int) -> bool:
    """Return whether a client is answered there."""
    try:
        with RawClient(host, port) as client:
            return bool(client.ask(ApiVersionsRequest(), 0).error_code == ErrorCode.NONE)
    except ConnectionRefusedError:
        return False


def come_back(broker: ottla.Broker) -> None:
    broker.stop_node(1)
    broker.start_node(1)


def restart_without_a_node(broker: ottla.Broker) -> None:
    broker.stop_node(1)
    broker.restart()


CHANGES: dict[str, Callable[[ottla.Broker], object]] = {
    "restart": ottla.Broker.restart,
    "crash": ottla.Broker.crash,
    "reset": ottla.Broker.reset,
    "a node comes back": come_back,
    "a restart with a node stopped": restart_without_a_node,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_all_addresses_serve_at_the_same_ports_afterwards(change: Callable[[ottla.Broker], object]) -> None:
    with ottla.Broker(listener="localhost:0", nodes=2) as broker:
        before = ports(broker)
        change(broker)
        assert ports(broker) == before
        assert [(host, port) for port in before for host in LOOPBACKS if not serves(host, port)] == []
    assert [(host, port) for port in before for host in LOOPBACKS if serves(host, port)] == []


def test_a_stopped_node_keeps_all_its_addresses_reserved() -> None:
    with ottla.Broker(listener="localhost:0", nodes=2) as broker:
        broker.stop_node(1)
        port = ports(broker)[1]
        for host in LOOPBACKS:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            assert not serves(host, port)
            with socket.socket(family) as client, pytest.raises(OSError, match="in use"):
                client.bind((host, port))


@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_node_with_one_taken_address_stays_stopped_until_it_is_free(host: str) -> None:
    with ottla.Broker(listener="localhost:0", nodes=2) as broker:
        broker.stop_node(1)
        port = ports(broker)[1]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with closing(socket.create_server((host, port), family=family)):
            with pytest.raises(OSError, match=f"cannot listen on PLAINTEXT://localhost:{port}: "):
                broker.start_node(1)
            others = [each for each in LOOPBACKS if each != host]
            assert [serves(each, port) for each in others] == [False]
        broker.start_node(1)
        assert all(serves(each, port) for each in LOOPBACKS)


@pytest.mark.parametrize("host", LOOPBACKS)
def test_a_start_with_one_taken_address_leaves_nothing_open(host: str, tmp_path: Path) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.create_server((host, 0), family=family)) as taken:
        port = taken.getsockname()[1]
        for where in ({"listener": f"localhost:{port}"}, {"admin": f"localhost:{port}"}):
            with pytest.raises(OSError, match=f"localhost:{port}: Address already in use"):
                ottla.Broker(tmp_path, **where).start()  # type: ignore[arg-type]
        (other,) = (each for each in LOOPBACKS if each != host)
        with socket.create_server((other, port), family=socket.AF_INET6 if ":" in other else socket.AF_INET):
            pass


def test_a_listeners_limit_covers_all_its_addresses() -> None:
    name = "listener.name.plaintext.max.connections"
    with ottla.Broker(listener="localhost:0", overrides={name: 2}) as broker:
        (port,) = ports(broker)
        with RawClient("127.0.0.1", port) as one, RawClient("::1", port) as other:
            for client in (one, other):
                client.ask(ApiVersionsRequest(), 0)
            with RawClient("::1", port) as third:
                third.send(ApiVersionsRequest(), 0)
                assert not third.has_answer()
                one.close()
                assert third.receive().error_code == ErrorCode.NONE


EVERYWHERE: dict[str, str | int | float | bool] = {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"}


@pytest.mark.parametrize("listener", [":0", "0.0.0.0:0", "[::]:0"])
def test_an_ipv4_client_has_an_ipv4_address_everywhere(listener: str, caplog: pytest.LogCaptureFixture) -> None:
    """A broker on all interfaces uses addresses for limits, log, ACLs, lists and groups."""
    acls = ("User:* allow DESCRIBE topic:* from 127.0.0.1",)
    overrides = EVERYWHERE | {"max.connections.per.ip": 5, "max.connections.per.ip.overrides": "127.0.0.1:1"}
    with ottla.Broker(listener=listener, overrides=overrides, acls=acls) as broker:
        (port,) = ports(broker)
        with RawClient("127.0.0.1", port) as client:
            request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=False)
            assert client.ask(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            own_port = client._socket.getsockname()[1]

            async def looks() -> tuple[list[str], list[str]]:
                inner = broker.inner
                listed = [each.peer for each in (await list_connections(inner)).connections]
                return listed, [each.client_host for each in inner.connections]

            assert broker.run(looks) == ([f"127.0.0.1:{own_port}"], ["127.0.0.1"])
            with caplog.at_level(logging.WARNING), RawClient("127.0.0.1", port) as second:
                assert second.is_closed_by_peer()
            assert "from 127.0.0.1: max.connections.per.ip for 127.0.0.1 is 1" in caplog.text
            assert MAPPED not in caplog.text
            with RawClient("::1", port) as other:  # another address, with a limit and rights of its own
                assert other.ask(request).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
                assert f"[::1]:{other._socket.getsockname()[1]}" in broker.run(looks)[0]


def test_an_acl_entry_for_ipv6_has_apache_kafkas_notation() -> None:
    with ottla.Broker(listener="localhost:0", acls=("User:* allow DESCRIBE topic:* from 0:0:0:0:0:0:0:1",)) as broker:
        (port,) = ports(broker)
        request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=False)
        with RawClient("::1", port) as client:
            assert client.ask(request).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_members_are_described_with_addresses_in_apache_kafkas_notation() -> None:
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )
    with ottla.Broker(listener="localhost:0") as broker:
        (port,) = ports(broker)
        with RawClient("::1", port) as client:
            assert client.ask(heartbeat).error_code == ErrorCode.NONE

        async def described() -> list[str]:
            return [each.client_host for each in (await describe_group(broker.inner, "g")).members]

        assert broker.run(described) == ["/0:0:0:0:0:0:0:1"]
