"""The nodes of the cluster that this process plays: broker ids, listeners, advertised addresses.

All nodes stand on one store. Which node leads a partition or coordinates a group is a fact of
routing: a request that reaches the wrong node is refused as on a real cluster, and no data is ever
copied between nodes.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from .fetch_sessions import FetchSessions

# Connections that the kernel completes for us before we accept them.
BACKLOG = 512


@dataclass(slots=True)
class Listener:
    """One listening address of a node.

    `port` is the bound one after `bind`; the advertised address is what Metadata tells clients
    that came in by this listener's name.
    """

    name: str
    host: str
    port: int
    advertised_host: str = ""
    advertised_port: int = 0
    socket: socket.socket | None = None

    def bind(self) -> None:
        """Listen on `host:port` (0 takes a free port).

        Raises:
            OSError: The address cannot be had; names it.
        """
        family, kind, protocol, _, address = socket.getaddrinfo(
            self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(
                error.errno, f"cannot listen on {self.host}:{self.port} ({self.name}): {error.strerror}"
            ) from error
        sock.setblocking(False)
        self.socket = sock
        self.port = sock.getsockname()[1]
        # Advertising a wildcard address would send clients nowhere.
        self.advertised_host = self.advertised_host or (
            "localhost" if self.host in ("", "0.0.0.0", "::") else self.host
        )
        self.advertised_port = self.advertised_port or self.port

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


@dataclass(slots=True)
class Node:
    """One broker id. `listeners` is in configured order; the first is the one that `ready` prints."""

    node_id: int
    listeners: list[Listener]
    fetch_sessions: FetchSessions
    rack: str | None = None
    by_listener: dict[str, Listener] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_listener = {listener.name: listener for listener in self.listeners}

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Host and port that a client of listener `listener_name` should use for this node.

        A node without a listener of that name answers with its first one.
        """
        listener = self.by_listener.get(listener_name) or self.listeners[0]
        return listener.advertised_host, listener.advertised_port


def close_all(nodes: Iterable[Node]) -> None:
    """Stop listening on every node."""
    for node in nodes:
        for listener in node.listeners:
            listener.close()
