"""Limits on connections: which clients wait, which are closed, and that a changed limit applies at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import ottla
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from ottla.protocol.messages.describe_client_quotas import EntityData
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.server.runtime.clock import Clock
from support.broker.background_jobs import eventually
from support.broker.raw_client import RawClient

METADATA = MetadataRequest(topics=())
BOTH = {
    "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
}


class Limited:
    """A broker of two listeners: PLAINTEXT, which is for brokers, and OTHER."""

    def __init__(self, broker: ottla.Broker, stack: ExitStack) -> None:
        self.broker = broker
        self._stack = stack
        self.ports = {listener.name: listener.port for listener in broker.inner.nodes[0].listeners}

    def client(self, listener: str = "OTHER") -> RawClient:
        """Return a new connection that has sent a request, which the broker may or may not read."""
        client = self._stack.enter_context(RawClient("127.0.0.1", self.ports[listener]))
        client.send(METADATA)
        return client

    def served(self, listener: str = "OTHER") -> RawClient:
        client = self.client(listener)
        client.receive()
        return client

    def set(self, **configs: str) -> None:
        changes = tuple(
            AlterableConfig(name=name.replace("_", "."), value=value, config_operation=0)
            for name, value in configs.items()
        )
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
        with RawClient("127.0.0.1", self.ports["PLAINTEXT"]) as client:
            (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        assert row.error_code == 0, row


@contextmanager
def limited(data_dir: Path, **overrides: str) -> Iterator[Limited]:
    overrides = {name.replace("_", "."): value for name, value in overrides.items()}
    with ExitStack() as stack:
        clock = Clock()
        broker = stack.enter_context(ottla.Broker(str(data_dir), overrides=BOTH | overrides, clock=clock))
        yield Limited(broker, stack)


def test_beyond_max_connections_new_clients_wait_and_brokers_do_not(tmp_path: Path) -> None:
    with limited(tmp_path, max_connections="2") as limits:
        first, second = limits.served(), limits.served()
        third = limits.client()
        brokers = limits.served("PLAINTEXT")
        assert not third.has_answer()
        # The connection for brokers has taken the place of the one that was idle for longest.
        assert eventually(limits.broker, lambda: first.is_open() + second.is_open() == 1)
        brokers.close()
        second.close()
        first.close()
        third.receive()


def test_a_listener_has_its_own_limits(tmp_path: Path) -> None:
    with limited(tmp_path, **{"listener.name.other.max.connections": "1"}) as limits:
        first = limits.served()
        second = limits.client()
        limits.served("PLAINTEXT")
        assert not second.has_answer()
        first.close()
        second.receive()


def test_a_changed_limit_applies_at_once(tmp_path: Path) -> None:
    with limited(tmp_path, max_connections="2") as limits:
        served = [limits.served(), limits.served()]
        waiting = limits.client()
        assert not waiting.has_answer()
        limits.set(max_connections="5")
        waiting.receive()
        limits.set(max_connections="1")
        assert eventually(limits.broker, lambda: sum(client.is_open() for client in [*served, waiting]) <= 1)


def test_connections_beyond_the_rate_wait(tmp_path: Path) -> None:
    with limited(tmp_path, **{"listener.name.other.max.connection.creation.rate": "1"}) as limits:
        limits.broker.clock.freeze()
        for _ in range(10):
            limits.served().close()
        waiting = limits.client()
        limits.served("PLAINTEXT")
        assert not waiting.has_answer()
        limits.broker.clock.advance(milliseconds=1000)
        waiting.receive()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", None])
def test_connections_beyond_the_rate_of_an_address_are_closed_later(tmp_path: Path, address: str | None) -> None:
    with limited(tmp_path) as limits:
        limits.broker.clock.freeze()
        entry = EntryData(
            entity=(EntityData(entity_type="ip", entity_name=address),),
            ops=(OpData(key="connection_creation_rate", value=1.0),),
        )
        admin = limits.served()
        assert admin.ask(AlterClientQuotasRequest(entries=(entry,))).entries[0].error_code == 0
        for _ in range(10):
            limits.served().close()
        refused = limits.client()
        assert admin.ask(METADATA) and not refused.has_answer() and refused.is_open()
        (told,) = limits.broker.throttled()
        assert (told.ip, told.left_ms) == ("127.0.0.1", 1000) and told.sentence.endswith("is 1")
        assert told.entity == ("ip=<default>" if address is None else "ip=127.0.0.1")
        limits.broker.clock.advance(milliseconds=1000)
        assert refused.is_closed_by_peer()
        limits.broker.clock.advance(milliseconds=12_000)
        limits.served()


def test_a_stop_does_not_wait_for_waiting_clients(tmp_path: Path) -> None:
    with limited(tmp_path, max_connections="1") as limits:
        limits.served()
        waiting = limits.client()
        limits.broker.stop()
        assert waiting.is_closed_by_peer()
