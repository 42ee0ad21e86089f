"""Hosts of entries in CIDR notation, e.g. `10.0.0.0/8` or `fd00::/8`: which of them contain an address.

Such a host may be any address of the network. A host with a slash that is no network, which earlier releases accepted, applies
to no client.
"""

from __future__ import annotations

import re
from collections import Counter
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

_IPV4_FIELDS = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_PREFIX = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_IPV4_BITS, _IPV6_BITS = 32, 128


class Network(NamedTuple):
    """Addresses whose leading `prefix` bits, as a number, are `leading`."""

    bits: int
    prefix: int
    leading: int


def network_of(host: str) -> Network:
    """Return the network of a host in CIDR notation. Raise ValueError, with Apache Kafka's reason, if it is none."""
    bits, number, prefix = _ipv6(host) if ":" in host else _ipv4(host)
    return Network(bits, prefix, number >> (bits - prefix))


def _ipv4(host: str) -> tuple[int, int, int]:
    found = _IPV4_FIELDS.fullmatch(host)
    if found is None:
        raise ValueError(f"Could not parse [{host}]")
    *fields, prefix = map(int, found.groups())
    for value, most in (*((field, 255) for field in fields), (prefix, _IPV4_BITS)):
        if value > most:
            raise ValueError(f"Value [{value}] not in range [0,{most}]")
    return _IPV4_BITS, int.from_bytes(fields), prefix


def _ipv6(host: str) -> tuple[int, int, int]:
    address, _, length = host.partition("/")
    if _PREFIX.fullmatch(length) is None:
        raise ValueError(f"Could not parse [{host}] - invalid prefix length")
    prefix = int(length)
    if not 0 <= prefix <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{host}] - prefix length must be between 0 and {_IPV6_BITS}")
    plain = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    plain, _, scope = plain.partition("%")
    try:
        found = IPv6Address(plain)
    except AddressValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if scope and not scope.isdecimal():
        raise ValueError(f"Could not parse [{address}]")
    if found.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    return _IPV6_BITS, int(found), prefix


def check_host(host: str) -> None:
    """Raise ValueError, with Apache Kafka's message, unless a new entry may have this host."""
    if not host:
        raise ValueError("Host pattern cannot be null or empty")
    if is_network(host):
        try:
            network_of(host)
        except ValueError as error:
            raise ValueError(f"Invalid CIDR notation '{host}': {error}") from None


def is_network(host: str) -> bool:
    """Return whether the host of an entry has the form of a network, valid or not."""
    return "/" in host


class Networks:
    """The networks among the hosts of all entries. A look-up takes as long for one network as for thousands."""

    def __init__(self) -> None:
        self._hosts: dict[Network, Counter[str]] = {}
        """Number of entries by network and host: `10.0.0.0/8` and `10.0.0.1/8` are the same network."""
        self._prefixes: Counter[tuple[int, int]] = Counter()
        """Number of networks by bits and prefix."""

    def add(self, host: str) -> None:
        """Count an entry with this host; one that is no network is ignored."""
        if (network := _parsed(host)) is not None:
            if network not in self._hosts:
                self._hosts[network] = Counter()
                self._prefixes[network.bits, network.prefix] += 1
            self._hosts[network][host] += 1

    def remove(self, host: str) -> None:
        """Forget an entry that `add` has counted."""
        if (network := _parsed(host)) is not None:
            hosts = self._hosts[network]
            hosts[host] -= 1
            if not hosts[host]:
                del hosts[host]
            if not hosts:
                del self._hosts[network]
                self._prefixes[network.bits, network.prefix] -= 1
                if not self._prefixes[network.bits, network.prefix]:
                    del self._prefixes[network.bits, network.prefix]

    def containing(self, address: str) -> list[str]:
        """Return the hosts whose networks contain the client's address."""
        if not self._hosts:
            return []
        try:
            number = int(IPv6Address(address.partition("%")[0]) if ":" in address else IPv4Address(address))
        except AddressValueError:
            return []
        bits = _IPV6_BITS if ":" in address else _IPV4_BITS
        found: list[str] = []
        for of_bits, prefix in self._prefixes:
            if of_bits == bits:
                found += self._hosts.get(Network(bits, prefix, number >> (bits - prefix)), ())
        return found


def _parsed(host: str) -> Network | None:
    try:
        return network_of(host) if is_network(host) else None
    except ValueError:
        return None
