"""Dispatch from a listener's connections to the handlers: every request passes here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from ..cluster.nodes import Node
from ..faults.table import Faults
from ..network.connection import Connection
from ..network.dispatcher import Handler
from ..network.listener import Listener
from ..quotas.table import QuotaTable
from ..services.context import Context, Services
from . import CONTROLLER_KEYS, Handlers


class ListenerDispatcher:
    """The `network.dispatcher.RequestDispatcher` of one listener."""

    def __init__(self, handlers: Handlers, services: Services, node: Node, listener: Listener) -> None:
        self.handlers: Mapping[int, Handler] = handlers if listener.controller_id is None else OfController(handlers)
        self._loaded = handlers.loaded
        self._services = services
        self._node = node
        self._listener = listener
        self._outlives_node = listener.controller_id not in (None, node.node_id)
        self.login = services.logins.login_of(node.node_id, listener.name, listener.security_protocol)

    @property
    def node_id(self) -> int:
        return self._node.node_id

    def is_open(self) -> bool:
        return (self._node.is_alive or self._outlives_node) and not self._services.cluster.is_stopping

    async def loaded(self, key: int) -> Handler:
        if self._listener.controller_id is not None and key not in CONTROLLER_KEYS:
            raise KeyError(key)
        return await self._loaded(key)

    def context_for(self, client: Connection) -> Context:
        return Context(self._services, self._node, self._listener, client, client.time_slice)


class OfController(Mapping[int, Handler]):
    """Handlers loaded so far of the APIs that controllers answer."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def __getitem__(self, key: int) -> Handler:
        if key not in CONTROLLER_KEYS or key not in self._handlers:
            raise KeyError(key)
        return self._handlers[key]

    def __iter__(self) -> Iterator[int]:
        return (key for key in self._handlers if key in CONTROLLER_KEYS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def apply_faults(handlers: Handlers, faults: Faults) -> None:
    """Let declared faults act on the requests of APIs that an active fault may match; other APIs have no cost."""
    active = [fault.declaration for fault in faults.active() if fault.declaration.disk is None]
    if not active:
        handlers.interpose("faults", {})
        return
    from .faulted import matching_api_keys, wrap_with_faults  # A broker without faults must not load it.

    keys = {key for declaration in active for key in matching_api_keys(declaration)}
    handlers.interpose("faults", {key: partial(wrap_with_faults, faults) for key in keys})


def apply_quotas(handlers: Handlers, table: QuotaTable) -> None:
    """Let client quotas act on the requests of APIs that are limited; other APIs have no cost."""
    keys = table.clients.keys
    if not keys:
        handlers.interpose("quotas", {})
        return
    from .throttled import layers  # A broker without quotas must not load it.

    handlers.interpose("quotas", layers(table.clients, keys))
