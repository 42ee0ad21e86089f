"""Who is connected: from where, with which library, as whom."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from ..broker.broker import Broker
from ..runtime.time_slices import TimeSlice
from .operation import operation

COUNT_MAX = 500


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """One connection of a client."""

    peer: str
    """HOST:PORT of the client."""
    node: int
    listener: str
    """Name of the listener."""
    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    principal: str
    """Principal, e.g. `User:alice`; `User:ANONYMOUS` without authentication."""
    mechanism: str | None
    """SASL mechanism of the login."""
    software: str | None
    """Name and version of the client library, if the client reports them."""
    idle_s: int
    """Seconds without traffic, rounded down."""


@dataclass(frozen=True, slots=True)
class ConnectionList:
    """Connections in the order of node, listener and address."""

    connections: tuple[ConnectionState, ...]
    """At most COUNT_MAX connections."""
    count: int
    """Total number of connections."""


@operation("GET", "/v1/connections", only_waits=True)
async def list_connections(broker: Broker) -> ConnectionList:
    """List client connections.

    Connections of the admin listener are not included.
    """
    time_slice, now_s = TimeSlice(), trio.current_time()
    found = tuple(broker.connections)
    states = []
    async for each in time_slice.each(found[:COUNT_MAX]):
        states.append(
            ConnectionState(
                peer=each.peer,
                node=each.node_id,
                listener=each.listener.name,
                security_protocol=each.listener.security_protocol,
                principal=str(each.principal),
                mechanism=each.mechanism,
                software=None if each.software is None else " ".join(each.software),
                idle_s=int(each.idle_s(now_s)),
            )
        )
    states.sort(key=lambda each: (each.node, each.listener, each.peer))
    return ConnectionList(tuple(states), len(found))
