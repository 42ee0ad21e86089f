"""A simulated machine's addresses: `bind` and `getaddrinfo` answer as Linux does."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Any

WITH_IPV6 = ("127.0.0.1", "::1", "10.1.1.1", "fd00::1")
"""Addresses of a usual machine."""
IPV6_OFF = ("127.0.0.1", "10.1.1.1")
"""Addresses of a machine on which IPv6 is switched off: IPv6 sockets can be created, and :: can be bound."""
FIRST_FREE_PORT = 40_000


class FakeNetwork:
    """A machine. `taken` are addresses and ports of other programs; `names` is its hosts file, in its order."""

    def __init__(
        self,
        addresses: Collection[str] = WITH_IPV6,
        *,
        families: Collection[int] = (socket.AF_INET, socket.AF_INET6),
        taken: Iterable[tuple[str, int]] = (),
        names: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.addresses = addresses
        self.families = families
        self.taken = set(taken)
        self.names = names or {}
        self.open: list[FakeSocket] = []
        """Sockets that are bound and not closed."""
        self._free_ports = count(FIRST_FREE_PORT)

    def socket(self, family: int) -> Any:
        """Return a new socket. OSError: the address family is not supported."""
        if family not in self.families:
            raise _error(errno.EAFNOSUPPORT)
        return FakeSocket(self, family)

    def getaddrinfo(self, host: str | bytes, port: int | None, **_: object) -> list[tuple[Any, ...]]:
        """Resolve names of the hosts file, and addresses, as `socket.getaddrinfo` does."""
        name = host.decode() if isinstance(host, bytes) else host
        try:
            found = [str(ipaddress.ip_address(name))]
        except ValueError:
            if name not in self.names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
            found = self.names[name]
        return [(_family(each), socket.SOCK_STREAM, 6, "", (each, port or 0)) for each in found]

    def free_port(self) -> int:
        """Return the next port that the system chooses."""
        return next(self._free_ports)

    def is_taken(self, host: str, port: int, *, both: bool) -> bool:
        """Return whether a socket at `host` would collide with one at the same address, or at a wildcard of its families."""
        held = {*self.taken, *((each.host, each.port) for each in self.open)}
        for other, other_port in held:
            same_family = both or _family(other) == _family(host) or other == "::"
            wide = host in ("::", "0.0.0.0") or other in ("::", "0.0.0.0")
            if other_port == port and (other == host or (wide and same_family)):
                return True
        return False


class FakeSocket:
    """The part of a socket that a listener needs before it listens."""

    def __init__(self, network: FakeNetwork, family: int) -> None:
        self._network = network
        self.family = family
        self.takes_ipv4 = False
        self.host, self.port = "", 0

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
            self.takes_ipv4 = not value

    def bind(self, address: tuple[str, int]) -> None:
        host, port = address
        if host not in (*self._network.addresses, "::", "0.0.0.0"):
            raise _error(errno.EADDRNOTAVAIL)
        port = port or self._network.free_port()
        if self._network.is_taken(host, port, both=host == "::" and self.takes_ipv4):
            raise _error(errno.EADDRINUSE)
        self.host, self.port = host, port
        self._network.open.append(self)

    def getsockname(self) -> tuple[str, int]:
        return self.host, self.port

    def close(self) -> None:
        if self in self._network.open:
            self._network.open.remove(self)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
