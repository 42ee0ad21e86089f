"""Addresses to listen on."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import trio

from ..config.listeners import PLAINTEXT, ListenerConfig

if TYPE_CHECKING:
    from ..security.tls.contexts import ListenerTls

Socket = socket.socket


class CannotListenError(OSError):
    """An address cannot be had. Its message begins with that, not with the number of the error."""

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(slots=True)
class Listener:
    """One listening address of a node.

    `port` is the bound one after `bind`; the advertised address is what Metadata tells clients
    that came in by this listener's name.
    """

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    security_protocol: str = PLAINTEXT
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    controller_id: int | None = None
    """Who answers here: the controller with this id; None for the node's broker."""
    tls: ListenerTls | None = None
    """What connections are secured with; the broker sets it before anybody is accepted. None: they are not."""
    socket: Socket | None = None
    _reserved: Socket | None = None

    @classmethod
    def of(cls, config: ListenerConfig) -> Self:
        """The listener that `config` describes, not bound yet."""
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
        """Listen on `host:port` (0 takes a free port), with `backlog` connections waiting at most.

        Raises:
            OSError: The address cannot be had; names it.
        """
        sock, self._reserved = self._reserved or self._bound(), None
        try:
            sock.listen(backlog)
        except OSError as error:
            sock.close()
            raise self._refused(error) from error
        sock.setblocking(False)
        self.socket = sock
        self.port = sock.getsockname()[1]
        # An address that means every interface would send clients nowhere.
        self.advertised_host = self.advertised_host or socket.gethostname()
        self.advertised_port = self.advertised_port or self.port

    def _bound(self) -> Socket:
        """A socket that has the address; nobody can connect to it yet."""
        # Python loads its tables of international names for any text; most addresses are none.
        host = self.host.encode() if self.host.isascii() else self.host
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._refused(error) from error
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except OSError as error:
            sock.close()
            raise self._refused(error) from error
        return sock

    def _refused(self, error: OSError) -> OSError:
        return CannotListenError(
            error.errno, f"cannot listen on {self.name}://{self.host}:{self.port}: {error.strerror}"
        )

    @property
    def address(self) -> str:
        """HOST:PORT to connect to."""
        host = self.host or "localhost"
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def pause(self) -> None:
        """Stop listening but keep the port from being given to a client, so that `bind` finds it free.

        A client that tries a closed port of its own machine over and over may even be connected with itself.
        """
        self.close()
        with suppress(OSError):
            self._reserved = self._bound()

    def rest(self) -> None:
        """Go on listening with nobody who accepts: a task that does so ends, and who connects waits for the next one."""
        if self.socket is not None:
            trio.lowlevel.notify_closing(self.socket)

    def close(self) -> None:
        """Stop listening; a task that accepts on it ends."""
        if self.socket is not None:
            trio.lowlevel.notify_closing(self.socket)
            self.socket.close()
            self.socket = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
