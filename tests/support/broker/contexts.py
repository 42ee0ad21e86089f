"""Contexts of handlers, for tests that call handlers without a connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from ottla.protocol.connection import Request
from ottla.server.broker.broker import Broker
from ottla.server.network.dispatcher import LoggingIn, RequestingClient
from ottla.server.runtime.time_slices import TimeSlice
from ottla.server.security.principal import ANONYMOUS, Principal
from ottla.server.services.context import Context


class Staying:
    """A client that stays connected."""

    client_host = "127.0.0.1"
    client_port = "50000"
    software: tuple[str, str] | None = None
    peer = "127.0.0.1:1"
    principal: Principal = ANONYMOUS
    logging_in: LoggingIn | None = None
    heartbeat_s: float | None = None
    interval_ms: int = 0
    joining: tuple[Request, float] | None = None
    quiet: Any = None
    farewell: Callable[[], object] | None = None

    @property
    def time_slice(self) -> TimeSlice:
        return TimeSlice()

    def check_peer(self) -> None:
        pass

    def on_more(self, call: Callable[[], object] | None) -> None:
        """Do nothing: this client sends no further request."""

    def mute(self, until: Callable[[], Awaitable[None]]) -> None:
        """Do nothing: this client sends no further request."""

    async def hold(self, until: trio.Event, for_s: float, *, is_client_needed: bool) -> None:
        with trio.move_on_after(for_s):
            await until.wait()


def context_of(broker: Broker, client: RequestingClient | None = None, node_id: int = 0) -> Context:
    """Return the context of a request at a node's first listener; the node is the first by default."""
    node = broker.nodes[node_id]
    return Context(broker.services, node, node.listeners[0], client or Staying())
