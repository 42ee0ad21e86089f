"""Addresses of a listener's host, and the sockets that it gets, on machines of all kinds."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from ottla.server.network import listener
from ottla.server.network.listener import FREE_PORTS_TRIED, Address, addresses_of, bound_sockets
from ottla.storage.disk.files import UnusableError
from support.addresses.fake_network import FIRST_FREE_PORT, IPV6_OFF, WITH_IPV6, FakeNetwork
from support.noted import each_case

IPV4_ONLY = {"families": [socket.AF_INET], "addresses": IPV6_OFF}
NAMES = {
    "both": ["::1", "127.0.0.1"],
    "v6": ["::1"],
    "debian": ["127.0.1.1"],
    "many": ["::1", "127.0.0.1", "127.0.0.1", "127.0.1.1"],
    "outside": ["fd00::1", "10.1.1.1", "10.1.1.2"],
    "outside6": ["fd00::1", "fd00::2"],
    "mixed": ["::1", "10.1.1.1", "127.0.0.1"],
    "mixed6": ["fd00::1", "::1", "127.0.0.1"],
    "nothing": [],
    "Localhost": ["10.1.1.1"],
}


@each_case(
    "host, found",
    [
        ("", ["::", "0.0.0.0"]),
        ("0.0.0.0", ["::", "0.0.0.0"]),
        ("::", ["::"]),
        ("localhost", ["127.0.0.1", "::1"]),
        ("Localhost", ["127.0.0.1", "::1"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("::1", ["::1"]),
        ("10.1.1.1", ["10.1.1.1"]),
        ("both", ["127.0.0.1", "::1"]),
        ("v6", ["::1"]),
        ("debian", ["127.0.1.1"]),
        ("many", ["127.0.0.1", "127.0.1.1", "::1"]),
        ("outside", ["10.1.1.1"]),
        ("outside6", ["fd00::1"]),
        ("mixed", ["10.1.1.1"]),
        ("mixed6", ["127.0.0.1", "::1"]),
    ],
)
def test_a_host_resolves_to_the_expected_addresses(host: str, found: list[str]) -> None:
    addresses = addresses_of(host, FakeNetwork(names=NAMES).getaddrinfo)
    assert [each for _, each in addresses] == found
    assert all((family == socket.AF_INET6) == (":" in each) for family, each in addresses)


@pytest.mark.parametrize("host", ["unknown", "nothing"])
def test_a_name_without_addresses_is_refused(host: str) -> None:
    with pytest.raises(OSError, match=r"not known|no address"):
        addresses_of(host, FakeNetwork(names=NAMES).getaddrinfo)


Bound = list[tuple[str, int, bool]]
"""Address, port, and whether an IPv6 address also accepts IPv4."""
FREE = FIRST_FREE_PORT
MACHINES: dict[str, tuple[dict[str, Any], str, int, Bound | int]] = {
    "all interfaces": ({}, "", 9092, [("::", 9092, True)]),
    "all interfaces, written as IPv4": ({}, "0.0.0.0", 9092, [("::", 9092, True)]),
    "all interfaces, written as IPv6": ({}, "::", 9092, [("::", 9092, True)]),
    "all interfaces, a free port": ({}, "", 0, [("::", FREE, True)]),
    "all interfaces, IPv6 switched off": ({"addresses": IPV6_OFF}, "", 9092, [("::", 9092, True)]),
    "all interfaces, no IPv6": (IPV4_ONLY, "", 9092, [("0.0.0.0", 9092, False)]),
    "all interfaces of IPv6, no IPv6": (IPV4_ONLY, "::", 9092, errno.EAFNOSUPPORT),
    "all interfaces, taken": ({"taken": [("127.0.0.1", 9092)]}, "", 9092, errno.EADDRINUSE),
    "all interfaces, taken by IPv6": ({"taken": [("::1", 9092)]}, "", 9092, errno.EADDRINUSE),
    "localhost": ({}, "localhost", 9092, [("127.0.0.1", 9092, False), ("::1", 9092, True)]),
    "localhost, a free port": ({}, "localhost", 0, [("127.0.0.1", FREE, False), ("::1", FREE, True)]),
    "localhost, IPv6 switched off": ({"addresses": IPV6_OFF}, "localhost", 9092, [("127.0.0.1", 9092, False)]),
    "localhost, no IPv6": (IPV4_ONLY, "localhost", 9092, [("127.0.0.1", 9092, False)]),
    "localhost, no IPv4": (
        {"families": [socket.AF_INET6], "addresses": ["::1"]},
        "localhost",
        0,
        [("::1", FREE, True)],
    ),
    "localhost, taken at the first": ({"taken": [("127.0.0.1", 9092)]}, "localhost", 9092, errno.EADDRINUSE),
    "localhost, taken at the second": ({"taken": [("::1", 9092)]}, "localhost", 9092, errno.EADDRINUSE),
    "localhost, free ports that others have at the second": (
        {"taken": [("::1", FREE), ("::", FREE + 1)]},
        "localhost",
        0,
        [("127.0.0.1", FREE + 2, False), ("::1", FREE + 2, True)],
    ),
    "localhost, no free port": (
        {"taken": [("::1", FREE + step) for step in range(FREE_PORTS_TRIED)]},
        "localhost",
        0,
        errno.EADDRINUSE,
    ),
    "a name": ({"names": NAMES}, "both", 0, [("127.0.0.1", FREE, False), ("::1", FREE, True)]),
    "a name, IPv6 switched off": ({"names": NAMES, "addresses": IPV6_OFF}, "both", 0, [("127.0.0.1", FREE, False)]),
    "a name of IPv6, IPv6 switched off": ({"names": NAMES, "addresses": IPV6_OFF}, "v6", 0, errno.EADDRNOTAVAIL),
    "another machine's name": ({"names": NAMES, "addresses": WITH_IPV6[:2]}, "outside", 0, errno.EADDRNOTAVAIL),
}


@each_case("machine, host, port, expected", MACHINES.values(), ids=MACHINES.keys())
def test_all_addresses_are_bound_to_one_port_or_none_is(
    machine: dict[str, Any], host: str, port: int, expected: Bound | int
) -> None:
    network = FakeNetwork(**machine)
    addresses = addresses_of(host, network.getaddrinfo)
    if isinstance(expected, int):
        with pytest.raises(OSError, match=os.strerror(expected)) as refused:
            bound_sockets(addresses, port, network.socket)
        assert refused.value.errno == expected
        assert network.open == []
        return
    sockets: list[Any] = bound_sockets(addresses, port, network.socket)
    assert [(each.host, each.port, each.takes_ipv4) for each in sockets] == expected
    assert network.open == sockets


def test_a_refusal_names_the_address_if_there_are_several() -> None:
    network = FakeNetwork(taken=[("::1", 9092)])
    with pytest.raises(UnusableError, match=r"^Address already in use \(\[::1\]:9092\)$"):
        bound_sockets(addresses_of("localhost"), 9092, network.socket)


# The fake compared with the machine that runs this


def has(host: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
            sock.bind((host, 0))
    except OSError:
        return False
    return True


needs_both = pytest.mark.skipif(not (has("127.0.0.1") and has("::1")), reason="needs 127.0.0.1 and ::1")
STEPS: dict[str, list[tuple[str, bool]]] = {
    "two loopbacks": [("127.0.0.1", False), ("::1", False)],
    "one twice": [("127.0.0.1", False), ("127.0.0.1", False)],
    "everything after IPv4": [("127.0.0.1", False), ("::", True)],
    "everything after IPv6": [("::1", False), ("::", True)],
    "all of IPv6 after IPv4": [("127.0.0.1", False), ("::", False)],
    "IPv4 after everything": [("::", True), ("127.0.0.1", False)],
    "not here": [("192.0.2.1", False)],
    "IPv6 that is not here": [("2001:db8::1", False)],
}


def outcomes(make: Callable[[int], Any], steps: list[tuple[str, bool]]) -> list[int]:
    """Bind one address after the other to the first one's port; return 0 or the error number of each."""
    found, port = [], 0
    with ExitStack() as sockets:
        for host, takes_ipv4 in steps:
            sock = make(socket.AF_INET6 if ":" in host else socket.AF_INET)
            sockets.callback(sock.close)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if ":" in host:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not takes_ipv4))
            try:
                sock.bind((host, port))
            except OSError as error:
                found.append(error.errno or -1)
                continue
            if hasattr(sock, "listen"):
                sock.listen(1)  # only then a port with SO_REUSEADDR is no longer free
            found.append(0)
            port = sock.getsockname()[1]
    return found


@needs_both
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS.keys())
def test_the_fake_behaves_like_the_system(steps: list[tuple[str, bool]]) -> None:
    assert outcomes(FakeNetwork().socket, steps) == outcomes(socket.socket, steps)


@needs_both
def test_the_fake_lacks_a_family_like_the_system() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EAFNOSUPPORT)):
        FakeNetwork(families=[socket.AF_INET]).socket(socket.AF_INET6)
    with pytest.raises(OSError, match=os.strerror(errno.EAFNOSUPPORT)):
        socket.socket(250)


@needs_both
def test_a_free_port_is_the_same_at_both_loopbacks() -> None:
    addresses: list[Address] = addresses_of("localhost")
    sockets = bound_sockets(addresses, 0)
    try:
        (port,) = {each.getsockname()[1] for each in sockets}
        assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1", "::1"] and port
    finally:
        for each in sockets:
            each.close()


async def test_names_are_resolved_once_for_all_runs_of_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolver(host: str, *_: object, **__: object) -> list[Address]:
        asked.append(host)
        return [(socket.AF_INET, "127.0.0.1")]

    monkeypatch.setattr(listener, "addresses_of", resolver)
    made = listener.Listener("PLAINTEXT", "kafka.example", 0, "", 0)
    for _ in range(3):
        made.bind(1)
        made.close()
        made.pause()
    made.close()
    assert asked == ["kafka.example"]


@pytest.mark.parametrize("host", ["ü..example", "ü" * 64, "a\0b", "a..b", "x" * 300, "\ud800"])
def test_an_invalid_host_name_is_refused_in_one_line(host: str) -> None:
    """Python reports it in many ways; a broker ends with one line."""
    with pytest.raises(UnusableError, match=r"^cannot listen on PLAINTEXT://"):
        listener.Listener("PLAINTEXT", host, 0, host, 0).bind(1)
