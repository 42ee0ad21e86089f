"""Hosts of entries in CIDR notation: which are refused, with Apache Kafka 4.4.0's messages, and which contain an address."""

from __future__ import annotations

import ipaddress
import random

import pytest

from ottla.server.security.acls.networks import Networks, check_host
from support.noted import each_case

ACCEPTED = (
    *("*", "10.0.0.1", "::1", "a:b", "10.0.0.0/8", "10.1.2.3/8", "0.0.0.0/0", "10.0.0.0/08", "10.0.0.0/32"),
    *("fd00::/8", "fd00::1/64", "::/0", "fd00::/+8", "[fd00::]/8", "fe80::1%1/64", "fd00::/128"),
)
REFUSED = {
    "10.0.0.0/33": "Value [33] not in range [0,32]",
    "10.0.0.256/8": "Value [256] not in range [0,255]",
    "10.0.0/8": "Could not parse [10.0.0/8]",
    "10.0.0.0/": "Could not parse [10.0.0.0/]",
    "/8": "Could not parse [/8]",
    "a/b": "Could not parse [a/b]",
    "10.0.0.0/8/8": "Could not parse [10.0.0.0/8/8]",
    " 10.0.0.0/8": "Could not parse [ 10.0.0.0/8]",
    "fd00::/129": "Could not parse [fd00::/129] - prefix length must be between 0 and 128",
    "fd00::/-1": "Could not parse [fd00::/-1] - prefix length must be between 0 and 128",
    "fd00::/x": "Could not parse [fd00::/x] - invalid prefix length",
    "fd00::/": "Could not parse [fd00::/] - invalid prefix length",
    "fd00::/999999999999": "Could not parse [fd00::/999999999999] - invalid prefix length",
    "::ffff:10.0.0.0/104": "Could not parse [::ffff:10.0.0.0] - not an IPv6 address",
    "fe80::1%eth9/64": "Could not parse [fe80::1%eth9]",
    "g::/8": "Could not parse [g::]",
    "1:2/8": "Could not parse [1:2]",
}


@each_case("host", ACCEPTED)
def test_these_hosts_are_accepted(host: str) -> None:
    check_host(host)


@each_case("host, why", REFUSED.items())
def test_these_hosts_are_refused(host: str, why: str) -> None:
    with pytest.raises(ValueError) as refused:
        check_host(host)
    assert str(refused.value) == f"Invalid CIDR notation '{host}': {why}"


def test_an_empty_host_is_refused() -> None:
    with pytest.raises(ValueError, match="Host pattern cannot be null or empty"):
        check_host("")


CONTAINED = {
    "10.0.0.0/8": {"10.0.0.0", "10.255.255.255"},
    "10.255.0.1/8": {"10.0.0.0", "10.255.255.255"},
    "10.255.255.255/32": {"10.255.255.255"},
    "0.0.0.0/0": {"10.0.0.0", "10.255.255.255", "11.0.0.0"},
    "fd00::1/64": {"fd00:0:0:0:0:0:0:7"},
    "fe80::/10": {"fe80:0:0:0:0:0:0:1%eth0"},
    "::/0": {"fd00:0:0:0:0:0:0:7", "fe80:0:0:0:0:0:0:1%eth0"},
    "a/b": set(),
    "10.0.0.0": set(),
}
ADDRESSES = ("10.0.0.0", "10.255.255.255", "11.0.0.0", "fd00:0:0:0:0:0:0:7", "fe80:0:0:0:0:0:0:1%eth0", "unix", "")


@each_case("host", CONTAINED)
def test_a_network_contains_its_addresses(host: str) -> None:
    networks = Networks()
    networks.add(host)
    assert {address for address in ADDRESSES if networks.containing(address) == [host]} == CONTAINED[host]
    networks.remove(host)
    assert not any(map(networks.containing, ADDRESSES))


def test_any_networks_are_found_as_one_by_one_until_they_are_removed() -> None:
    dice, networks, present = random.Random(7), Networks(), list[str]()
    for _ in range(400):
        if present and dice.random() < 0.4:
            gone = present.pop(dice.randrange(len(present)))
            networks.remove(gone)
        else:
            host = f"10.{dice.randrange(2)}.{dice.randrange(2)}.{dice.randrange(4)}/{dice.randrange(33)}"
            networks.add(host)
            present.append(host)
        address = f"10.{dice.randrange(2)}.{dice.randrange(2)}.{dice.randrange(4)}"
        expected = {
            host for host in present if ipaddress.IPv4Address(address) in ipaddress.IPv4Network(host, strict=False)
        }
        found = networks.containing(address)
        assert set(found) == expected
        assert len(found) == len(expected)
