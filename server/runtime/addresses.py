"""Formats of addresses: of sockets, of Apache Kafka, with a port."""

from __future__ import annotations

import ipaddress


def plain_address(host: str) -> str:
    """Return an address in the format of sockets; an IPv4 address that came over IPv6 (`::ffff:127.0.0.1`) as IPv4. Other texts
    are unchanged."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def java_host(host: str) -> str:
    """Return an address as Apache Kafka writes and compares it: IPv6 in eight groups without leading zeros."""
    if ":" not in host:
        return host
    plain, percent, scope = host.strip("[]").partition("%")
    try:
        address = ipaddress.IPv6Address(plain)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":")) + percent + scope


def with_port(host: str, port: int) -> str:
    """Format HOST:PORT; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
