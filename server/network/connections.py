"""Takes connections: one task per listener, one per connection, within the connection limits."""

from __future__ import annotations

import errno
import logging
import math
import socket
from collections import Counter
from collections.abc import Collection, Iterator

import trio

from ...storage.disk.descriptors import KEPT_FOR_SEGMENTS, is_scarce
from ..config.live_config import LiveConfig
from ..runtime.turns import Turn
from .connection import Connection
from .desk import Desk
from .listener import Listener
from .shares import Shares
from .transport import PlainTransport

log = logging.getLogger("ottla.acceptor")

# What is wrong with one connection that was waiting, or with the way to its client (accept(2): errors of the new socket
# are passed on, a firewall says EPERM): that one is gone, and there may be others behind it.
OF_ONE_CONNECTION = frozenset(
    number
    for name in (
        "EAGAIN",
        "ECONNABORTED",
        "EHOSTDOWN",
        "EHOSTUNREACH",
        "EINTR",
        "ENETDOWN",
        "ENETUNREACH",
        "ENONET",
        "ENOPROTOOPT",
        "EOPNOTSUPP",
        "EPERM",
        "EPROTO",
    )
    if (number := getattr(errno, name, None)) is not None
)
# Anything else, out of descriptors or memory first of all, leaves the connection queued: try again a little later.
ACCEPT_RETRY_S = 0.1
# How often to say so.
TELL_EVERY_S = 10.0


class Connections:
    """The open connections of all nodes.

    Limits: `max.connections` and `max.connections.per.ip` (with `…overrides`), and the descriptors of the process. A
    connection beyond a limit is closed at once with one log line.
    """

    def __init__(self, live_config: LiveConfig, shares: Shares) -> None:
        self._live_config = live_config
        self._shares = shares
        self._open: set[Connection] = set()
        self._per_host: Counter[str] = Counter()
        self._draining = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._open))

    async def accept_on(self, listener: Listener, desk: Desk, nursery: trio.Nursery) -> None:
        """Accept on `listener` until it is closed or the desk is, whatever errors come; connections run in `nursery`."""
        listening = listener.socket
        tell_at_s = -math.inf
        while listening is not None and listening is listener.socket and desk.is_open:
            try:
                await trio.lowlevel.wait_readable(listening)
                if not desk.is_open:
                    return  # the next one who accepts here is to have it
                sock, address = listening.accept()
            except trio.ClosedResourceError:
                return
            except OSError as error:
                if listener.socket is not listening:
                    return  # Closed after a client had been announced.
                if error.errno in OF_ONE_CONNECTION:
                    log.debug("a connection to %s was not accepted: %s", listener.address, error)
                    continue
                if trio.current_time() >= tell_at_s:
                    log.warning("cannot accept on %s: %s", listener.address, error)
                    tell_at_s = trio.current_time() + TELL_EVERY_S
                await trio.sleep(ACCEPT_RETRY_S)
                continue
            try:
                self._admit(sock, address, listener, desk, nursery)
            except Exception:
                # Some systems refuse options of a socket whose peer has gone.
                log.exception("cannot serve a connection from %s", address[0])
                sock.close()

    def _admit(
        self, sock: socket.socket, address: tuple[str, int], listener: Listener, desk: Desk, nursery: trio.Nursery
    ) -> None:
        host = address[0]
        config = self._live_config.current
        limit = config.max_connections_by_host.get(host, config.max_connections_per_ip)
        reason = None
        if len(self._open) >= config.max_connections:
            reason = f"max.connections is {config.max_connections}"
        elif self._per_host[host] >= limit:
            reason = f"max.connections.per.ip for {host} is {limit}"
        elif is_scarce(sock.fileno(), KEPT_FOR_SEGMENTS):
            reason = "few file descriptors are left (ulimit -n), and those are for segments"
        if reason:
            log.warning("refusing a connection from %s: %s", host, reason)
            sock.close()
            return
        connection = Connection(self._shares, listener, desk, _transport(sock, listener), f"{host}:{address[1]}")
        self._open.add(connection)
        self._per_host[host] += 1
        nursery.start_soon(self._serve, connection, host)

    async def _serve(self, connection: Connection, host: str) -> None:
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)
            self._per_host[host] -= 1
            if not self._per_host[host]:
                del self._per_host[host]
            self._draining.unpark_all()

    async def close_idle(self, max_idle_ms: int) -> None:
        """Close connections on which no byte has moved, in either direction, for `max_idle_ms`."""
        turn = Turn()
        for connection in tuple(self._open):
            if turn.is_over():
                await turn.next()
            if connection in self._open and connection.idle_s(trio.current_time()) > max_idle_ms / 1000:
                log.info("closing %s: idle longer than connections.max.idle.ms (%d)", connection.peer, max_idle_ms)
                connection.close()

    async def drain(self, deadline_s: float, listeners: Collection[Listener]) -> None:
        """Close connections to `listeners` as their requests end; those still busy after `deadline_s` are closed too."""
        turn = Turn()
        with trio.move_on_after(deadline_s):
            while left := self._of(listeners):
                is_seen_at_once = True
                for connection in left:
                    if turn.is_over():
                        is_seen_at_once = False
                        await turn.next()
                    if not connection.busy or connection.is_held:
                        connection.close()
                if is_seen_at_once:  # else some may have ended already, and nobody would tell
                    await self._draining.park()
        for connection in self._of(listeners):
            if turn.is_over():
                await turn.next()
            log.warning("closing %s in the middle of a request: the node stops", connection.peer)
            connection.close()

    def _of(self, listeners: Collection[Listener]) -> list[Connection]:
        those = {id(listener) for listener in listeners}
        return [connection for connection in self._open if id(connection.listener) in those]


def _transport(sock: socket.socket, listener: Listener) -> PlainTransport:
    if listener.tls is None:
        return PlainTransport(sock)
    from .tls_transport import TlsTransport  # No broker without TLS shall wait for it.

    return TlsTransport(sock, listener.tls.present.context)
