"""Accepting of connections: one task per listener, one per connection, within the connection limits."""

from __future__ import annotations

import errno
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from heapq import nlargest

import trio

from ...storage.disk.descriptors import KEPT_FOR_SEGMENTS, is_scarce
from ..quotas.connections import ConnectionRates, Where
from ..runtime.addresses import plain_address, with_port
from ..runtime.clock import Clock
from ..runtime.time_slices import TimeSlice
from .authentication.counts import Authentications
from .connection import Connection
from .connection_limits import ConnectionLimits
from .dispatcher import RequestDispatcher
from .listener import Listener
from .shares import ConnectionResources
from .transport import PlainTransport

log = logging.getLogger("ottla.acceptor")

# Errors of one waiting connection, or of the network to its client (accept(2): errors of the new socket are passed on, a
# firewall says EPERM): that connection is lost, but others may wait after it.
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
# Any other error, e.g. out of descriptors or memory, leaves the connection queued: try again a little later.
ACCEPT_RETRY_S = 0.1
# Interval at which that is logged.
TELL_EVERY_S = 10.0
# Otherwise many new connections at a time of load would get one accept per pass of the scheduler, which may take 3 ms.
ACCEPTED_AT_ONCE = 16
# Connections beyond a limit that was lowered; the rest is closed a second later.
CLOSED_AT_ONCE = 100
# Connections that are delayed before they are closed, as their addresses make too many.
REFUSED_MAX = 1_000


class Connections:
    """The open connections of all nodes.

    Beyond `max.connections`, of a node or of one of its listeners, and beyond their `max.connection.creation.rate` the next
    connection waits before anything is read from it, and those after it are not accepted. The listener for brokers, if there
    are others, still accepts; a connection of another listener is closed for it. Connections of an address beyond its quota are
    closed after a delay. Connections beyond `max.connections.per.ip` (with `…overrides`) or the descriptors of the process are
    closed at once, with one log line.
    """

    def __init__(
        self, limits: ConnectionLimits, shares: ConnectionResources, clock: Clock, rates: ConnectionRates
    ) -> None:
        self.limits = limits
        self._shares = shares
        self._clock = clock
        self._rates = rates
        self._open: set[Connection] = set()
        self._per_host: Counter[tuple[int, str]] = Counter()
        """Open connections by node and address."""
        self._admitted: Counter[Where] = Counter()
        """Connections since the start, by node and listener."""
        self._per_listener: Counter[int] = Counter()
        """Open connections by the identity of the listener."""
        self._per_node: Counter[int] = Counter()
        self._refused = 0
        """Connections that are not served, and not closed yet."""
        self._tell_at_s = -math.inf
        """Time from which on waiting connections are logged again."""
        self._draining = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        """Place where accepting tasks wait for a free connection slot."""

    def __len__(self) -> int:
        return len(self._open)

    @property
    def authentications(self) -> Authentications:
        """Counts of authentications."""
        return self._shares.authentications

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._open))

    async def accept_on(
        self, listening: socket.socket, listener: Listener, dispatcher: RequestDispatcher, nursery: trio.Nursery
    ) -> None:
        """Accept on one socket of `listener` until the listener or the dispatcher is closed, despite any errors.

        Connections run in `nursery`.
        """
        tell_at_s = -math.inf

        def is_listening() -> bool:
            return listening in listener.sockets and dispatcher.is_open

        left = 0
        while is_listening():
            try:
                if not left:
                    await trio.lowlevel.wait_readable(listening)
                    if not dispatcher.is_open:
                        return  # the next task that accepts here must have it
                    left = ACCEPTED_AT_ONCE
                left -= 1
                sock, (raw_host, port, *_) = listening.accept()
                host = plain_address(raw_host)
            except trio.ClosedResourceError:
                return
            except OSError as error:
                left = 0
                if listening not in listener.sockets:
                    return  # Closed after a client had been announced.
                if error.errno in OF_ONE_CONNECTION:
                    log.debug("connection to %s not accepted: %s", listener.address, error)
                    continue
                if trio.current_time() >= tell_at_s:
                    log.warning("cannot accept on %s: %s", listener.address, error)
                    tell_at_s = trio.current_time() + TELL_EVERY_S
                await trio.sleep(ACCEPT_RETRY_S)
                continue
            is_taken = False
            try:
                reason = self._why_it_waits(listener, dispatcher.node_id)
                bounds = self._rate_bounds(listener, dispatcher.node_id)
                wait_ms = self._rates.count_connection(bounds)
                if (reason or wait_ms) and not await self._waited(
                    listener, dispatcher.node_id, wait_ms, reason, is_listening
                ):
                    continue
                close_ms = (
                    self._rates.close_after_ms((dispatcher.node_id, listener.name), host, bounds)
                    if self._rates.bounds
                    else 0
                )
                if close_ms:
                    is_taken = self._refuse_later(sock, host, close_ms, nursery)
                    continue
                is_taken = self._admit(sock, host, port, listener, dispatcher, nursery)
            except Exception:
                # Some systems refuse socket options if the peer has disconnected.
                log.exception("cannot serve a connection from %s", host)
            finally:
                if not is_taken:
                    sock.close()

    def _rate_bounds(self, listener: Listener, node_id: int) -> dict[Where, int]:
        """Return the `max.connection.creation.rate` of the listener and of its node."""
        config = self.limits.node_limits(node_id).config
        bounds = {(node_id, listener.name): config.connection_limits(listener.name).max_connection_creation_rate}
        if not self._is_protected(listener, node_id):
            bounds[node_id, ""] = config.max_connection_creation_rate
        return bounds

    def _is_protected(self, listener: Listener, node_id: int) -> bool:
        return listener.name == self.limits.node_limits(node_id).config.protected_listener

    def _why_it_waits(self, listener: Listener, node_id: int) -> str | None:
        """Return the limit because of which no further connection is taken at the moment."""
        config = self.limits.node_limits(node_id).config
        limit = config.connection_limits(listener.name).max_connections
        if self._per_listener[id(listener)] >= limit:
            return f"max.connections of listener {listener.name} is {limit}"
        if self._per_node[node_id] >= config.max_connections and not self._is_protected(listener, node_id):
            return f"max.connections is {config.max_connections}"
        return None

    async def _waited(
        self, listener: Listener, node_id: int, wait_ms: int, reason: str | None, is_listening: Callable[[], bool]
    ) -> bool:
        """Wait until a connection may be taken: `wait_ms` have passed, and there is a place. False: the listener was closed."""
        if reason is not None and trio.current_time() >= self._tell_at_s:
            log.warning("%s: connections are waiting: %s", listener.address, reason)
            self._tell_at_s = trio.current_time() + TELL_EVERY_S
        due_ms = self._clock.elapsed_ms() + wait_ms
        while is_listening():
            left_ms = due_ms - self._clock.elapsed_ms()
            if left_ms <= 0 and self._why_it_waits(listener, node_id) is None:
                return True
            with trio.move_on_after(ACCEPT_RETRY_S):  # no event reports that the listener is closed
                if left_ms > 0:
                    await self._clock.sleep_until(due_ms)
                else:
                    await self._room.park()
        return False

    def _refuse_later(self, sock: socket.socket, host: str, close_ms: int, nursery: trio.Nursery) -> bool:
        """Delay a connection before it is closed, so that its client does not retry more often. False: too many are delayed
        already."""
        log.debug("%s exceeds its connection rate quota; closing one connection in %d ms", host, close_ms)
        if self._refused >= REFUSED_MAX or is_scarce(sock.fileno(), KEPT_FOR_SEGMENTS):
            return False
        self._refused += 1
        nursery.start_soon(self._close_at, sock, self._clock.elapsed_ms() + close_ms)
        return True

    async def _close_at(self, sock: socket.socket, due_ms: int) -> None:
        try:
            await self._clock.sleep_until(due_ms)
        finally:
            self._refused -= 1
            sock.close()

    def _admit(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        listener: Listener,
        dispatcher: RequestDispatcher,
        nursery: trio.Nursery,
    ) -> bool:
        node_id = dispatcher.node_id
        limits = self.limits.node_limits(node_id)
        limit = limits.address_limit(host)
        reason = None
        if self._per_host[node_id, host] >= limit:
            reason = f"max.connections.per.ip for {host} is {limit}"
        elif is_scarce(sock.fileno(), KEPT_FOR_SEGMENTS):
            reason = "few file descriptors left (ulimit -n); they are reserved for log segments"
        if reason:
            self._shares.closings.log(logging.WARNING, "refusing a connection from %s: %s", host, reason)
            return False
        connection = Connection(self._shares, listener, dispatcher, _transport(sock, listener), with_port(host, port))
        self._open.add(connection)
        self._per_host[node_id, host] += 1
        self._per_listener[id(listener)] += 1
        self._admitted[node_id, listener.name] += 1
        self._per_node[node_id] += 1
        nursery.start_soon(self._serve, connection, node_id, host)
        if self._per_node[node_id] > limits.config.max_connections:
            self._close_excess(node_id)
        return True

    def counts(self) -> dict[Where, tuple[int, int]]:
        """Return the numbers of open connections, and of those since the start, by node and listener."""
        are_open = Counter((each.node_id, each.listener.name) for each in self._open)
        return {where: (are_open[where], admitted) for where, admitted in self._admitted.items()}

    def addresses(self, most: int) -> list[tuple[tuple[int, str], int]]:
        """Return the `most` (node, address) pairs with the most open connections, and their numbers."""
        return nlargest(most, self._per_host.items(), key=lambda item: item[1])

    def limits_changed(self) -> None:
        """Apply changed options: waiting connections may get a place, and connections beyond a limit are closed."""
        self.limits.changed()
        self.close_excess()
        self._room.unpark_all()

    def close_excess(self) -> None:
        """Close connections of nodes that have more than `max.connections`, CLOSED_AT_ONCE at most of each."""
        for node_id in tuple(self._per_node):
            self._close_excess(node_id)

    def _close_excess(self, node_id: int) -> None:
        """Close the longest idle connections of a node down to `max.connections`, except those to a protected listener."""
        config = self.limits.node_limits(node_id).config
        excess = self._per_node[node_id] - config.max_connections
        if excess <= 0:
            return
        now_s = trio.current_time()
        found = [
            each for each in self._open if each.node_id == node_id and not self._is_protected(each.listener, node_id)
        ]
        for connection in nlargest(min(excess, CLOSED_AT_ONCE), found, key=lambda each: each.idle_s(now_s)):
            log.info("closing %s: max.connections is %d", connection.peer, config.max_connections)
            connection.close()

    async def _serve(self, connection: Connection, node_id: int, host: str) -> None:
        try:
            await connection.serve()
        finally:
            self._open.discard(connection)
            self._per_host[node_id, host] -= 1
            if not self._per_host[node_id, host]:
                del self._per_host[node_id, host]
            self._per_listener[id(connection.listener)] -= 1
            self._per_node[node_id] -= 1
            if self._draining:
                self._draining.unpark_all()
            if self._room:
                self._room.unpark_all()

    async def close_idle(self, max_idle_ms: int) -> None:
        """Close connections on which no byte has moved, in either direction, for `max_idle_ms`."""
        time_slice = TimeSlice()
        async for connection in time_slice.each(tuple(self._open)):
            if connection in self._open and connection.idle_s(trio.current_time()) > max_idle_ms / 1000:
                log.info("closing %s: idle longer than connections.max.idle.ms (%d)", connection.peer, max_idle_ms)
                connection.close()

    async def drain(self, deadline_s: float, listeners: Collection[Listener]) -> None:
        """Close connections to `listeners` as their requests end, and those that are still busy after `deadline_s`."""
        time_slice = TimeSlice()
        with trio.move_on_after(deadline_s):
            while left := self._connections_of(listeners):
                is_seen_at_once = True
                for connection in left:
                    if time_slice.is_over():
                        is_seen_at_once = False
                        await time_slice.next()
                    if not connection.busy or connection.is_held:
                        connection.close()
                if is_seen_at_once:  # otherwise some may have ended already, without a notification
                    await self._draining.park()
        async for connection in time_slice.each(self._connections_of(listeners)):
            log.warning("closing %s during a request: the node is shutting down", connection.peer)
            connection.close()

    def _connections_of(self, listeners: Collection[Listener]) -> list[Connection]:
        those = {id(listener) for listener in listeners}
        return [connection for connection in self._open if id(connection.listener) in those]


def _transport(sock: socket.socket, listener: Listener) -> PlainTransport:
    if listener.tls is None:
        return PlainTransport(sock)
    from .tls_transport import TlsTransport  # A broker without TLS must not load it.

    return TlsTransport(sock, listener.tls.present.context)
