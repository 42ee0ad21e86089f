"""From a listener's connections to the handlers: the one place that every request passes."""

from __future__ import annotations

from functools import partial

from ..cluster.nodes import Node
from ..faults.table import Faults
from ..network.connection import Connection
from ..network.desk import Handler
from ..network.listener import Listener
from ..services.context import Context, Services
from . import Handlers


class ListenerDesk:
    """The `network.desk.Desk` of one listener."""

    def __init__(self, handlers: Handlers, services: Services, node: Node, listener: Listener) -> None:
        self.handlers = handlers
        self._services = services
        self._node = node
        self._listener = listener

    @property
    def is_open(self) -> bool:
        return self._node.is_alive and not self._services.cluster.is_stopping

    async def loaded(self, key: int) -> Handler:
        return await self.handlers.loaded(key)

    def context_for(self, client: Connection) -> Context:
        return Context(self._services, self._node, self._listener, client, client.turn)


def take_faults(handlers: Handlers, faults: Faults) -> None:
    """Have declared faults act on the requests of those APIs that one in force may be for; costs all others nothing."""
    active = [fault.declaration for fault in faults.active() if fault.declaration.disk is None]
    if not active:
        handlers.interpose("faults", {})
        return
    from .faulted import around, concerned  # No broker without faults shall wait for it.

    keys = {key for declaration in active for key in concerned(declaration)}
    handlers.interpose("faults", {key: partial(around, faults) for key in keys})
