"""Addresses to listen on.

A listener has one socket for each address of its host. They are opened and closed together, and have the same port.

    no host, 0.0.0.0    one socket for all addresses of both families; without IPv6, all IPv4 addresses
    ::                  the same, but IPv6 is needed
    localhost           127.0.0.1 and ::1, without asking the resolver
    another name        all loopback addresses that it names; else the first one, IPv4 before IPv6, as Java has it
    an address          that one

If the host has several addresses, those that this machine does not have are left out.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import trio

from ...storage.disk.files import UnusableError
from ..config.listeners import PLAINTEXT, ListenerConfig
from ..runtime.addresses import with_port

if TYPE_CHECKING:
    from ..security.tls.contexts import ListenerTls

Socket = socket.socket


Address = tuple[socket.AddressFamily, str]
"""An address family, and an address as text."""

Resolver = Callable[..., list[tuple[Any, ...]]]
"""Type of `socket.getaddrinfo`."""

ANY_IPV6: Address = (socket.AF_INET6, "::")
ANY_IPV4: Address = (socket.AF_INET, "0.0.0.0")
LOOPBACKS: tuple[Address, ...] = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
LOCALHOST = "localhost"

# Errors for an address, or an address family, that this machine does not have.
NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}
# A free port of the first address may be in use at the second one: number of tries.
FREE_PORTS_TRIED = 32


def addresses_of(host: str, resolver: Resolver = socket.getaddrinfo) -> list[Address]:
    """List the addresses of a listener's host, in the order in which they are bound; see the module. Blocks.

    Raises:
        OSError: Unknown host name.
    """
    if host in ("", ANY_IPV4[1]):
        return [ANY_IPV6, ANY_IPV4]
    if host.lower() == LOCALHOST:
        return list(LOOPBACKS)
    # Python loads its tables of international names for any text; most hosts do not need them.
    name = host.encode() if host.isascii() else host
    try:
        found = resolver(name, None, type=socket.SOCK_STREAM)
    except ValueError as error:  # UnicodeError is one of them
        raise OSError(errno.EINVAL, f"invalid host name ({error})") from None
    named = [(each[0], str(each[4][0])) for each in found if each[0] in (socket.AF_INET, socket.AF_INET6)]
    ordered = sorted(dict.fromkeys(named), key=lambda each: each[0] != socket.AF_INET)
    if not ordered:
        raise OSError(errno.EADDRNOTAVAIL, "host name has no address")
    if not _is_loopback(ordered[0]):
        return ordered[:1]
    return [each for each in ordered if _is_loopback(each)]


def bound_sockets(
    addresses: Iterable[Address], port: int, make: Callable[[socket.AddressFamily], Socket] | None = None
) -> list[Socket]:
    """Bind a socket to each of these addresses, all with the same port (0: a free one). They do not listen yet.

    Addresses that the machine does not have are left out, unless it has none of them. ANY_IPV6 takes IPv4, and nothing
    after it is bound.

    Raises:
        UnusableError: One of the others cannot be bound, with the number and text of the system; nothing stays open.
    """
    tries = FREE_PORTS_TRIED if port == 0 else 1
    while True:
        tries -= 1
        try:
            return _bound_once(list(addresses), port, make or _new_socket)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or tries == 0:
                raise


def _bound_once(addresses: list[Address], port: int, make: Callable[[socket.AddressFamily], Socket]) -> list[Socket]:
    sockets: list[Socket] = []
    missing: OSError | None = None
    try:
        for address in addresses:
            try:
                sockets.append(_bound(address, port, make))
            except OSError as error:
                if error.errno not in NOT_HERE:
                    which = f" ({with_port(address[1], port)})" if len(addresses) > 1 else ""
                    raise UnusableError(error.errno, f"{error.strerror}{which}") from error
                missing = missing or error
                continue
            port = sockets[0].getsockname()[1]
            if address == ANY_IPV6:
                break
        if not sockets:
            raise missing or OSError(errno.EADDRNOTAVAIL, "no address available")
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _bound(address: Address, port: int, make: Callable[[socket.AddressFamily], Socket]) -> Socket:
    family, host = address
    sock = make(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # As in Java. Without it the system's settings decide whether :: accepts IPv4.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _new_socket(family: socket.AddressFamily) -> Socket:
    return socket.socket(family, socket.SOCK_STREAM)


def _is_loopback(address: Address) -> bool:
    return ipaddress.ip_address(address[1].partition("%")[0]).is_loopback


@dataclass(slots=True)
class Listener:
    """One listener of a node.

    `port` is the bound one after `bind`. Metadata returns the advertised address to clients of this listener.
    """

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    security_protocol: str = PLAINTEXT
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    controller_id: int | None = None
    """Id of the controller that serves this listener; None: the node's broker does."""
    tls: ListenerTls | None = None
    """TLS settings, which the broker sets before it accepts connections; None: no TLS."""
    sockets: tuple[Socket, ...] = ()
    """Listening sockets, all with the same port."""
    _reserved: tuple[Socket, ...] = ()
    """Bound sockets that keep the port while the listener is paused."""
    _addresses: tuple[Address, ...] = ()
    """Addresses of the host, resolved once: a resolver may be slow, and other nodes are served while a node stops."""

    @classmethod
    def from_config(cls, config: ListenerConfig) -> Self:
        """Make the listener that `config` describes, not bound yet."""
        return cls(
            config.name,
            config.host,
            config.port,
            config.advertised_host,
            config.advertised_port,
            config.security_protocol,
            config.controller_id,
        )

    def bind(self, backlog: int) -> None:
        """Listen on `host:port` (0 takes a free port), with at most `backlog` waiting connections at each address.

        Raises:
            OSError: An address cannot be bound; the message names it. Nothing listens then.
        """
        sockets, self._reserved = self._reserved or self._bound(), ()
        try:
            for sock in sockets:
                sock.listen(backlog)
                sock.setblocking(False)
        except OSError as error:
            for sock in sockets:
                sock.close()
            raise self._refused(error) from error
        self.sockets = sockets
        self.port = sockets[0].getsockname()[1]
        # 0.0.0.0 and the like are not addresses that a client can connect to.
        self.advertised_host = self.advertised_host or socket.gethostname()
        self.advertised_port = self.advertised_port or self.port

    @property
    def is_listening(self) -> bool:
        """Whether clients can connect, or wait to be accepted."""
        return bool(self.sockets)

    def _bound(self) -> tuple[Socket, ...]:
        try:
            self._addresses = self._addresses or tuple(addresses_of(self.host))
            return tuple(bound_sockets(self._addresses, self.port))
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> OSError:
        return UnusableError(error.errno, f"cannot listen on {self.name}://{self.host}:{self.port}: {error.strerror}")

    @property
    def address(self) -> str:
        """HOST:PORT to connect to."""
        return with_port(self.host or LOCALHOST, self.port)

    @property
    def client_address(self) -> str:
        """HOST:PORT for clients: the advertised address, if this listens on all addresses of the machine by name."""
        if self.host in (ANY_IPV4[1], ANY_IPV6[1]):
            return with_port(self.advertised_host, self.advertised_port)
        return self.address

    def pause(self) -> None:
        """Stop listening, but keep the port reserved, so that `bind` finds it free.

        The system might give it to a client; one that retries a closed port of its own machine may even connect to itself.
        """
        self.close()
        with suppress(OSError):
            self.reserve()

    def reserve(self) -> None:
        """Keep the port for a later `bind`, without listening. OSError as for `bind`."""
        self._reserved = self._bound()

    def pause_accepting(self) -> None:
        """Keep listening, but let accepting tasks end: new connections wait for the next tasks that accept."""
        for sock in self.sockets:
            trio.lowlevel.notify_closing(sock)

    def close(self) -> None:
        """Stop listening; accepting tasks end."""
        sockets, self.sockets = self.sockets, ()
        for sock in sockets:
            trio.lowlevel.notify_closing(sock)
            sock.close()
        reserved, self._reserved = self._reserved, ()
        for sock in reserved:
            sock.close()
