"""Addresses in different notations."""

from __future__ import annotations

from ottla.server.runtime.addresses import java_host, plain_address, with_port
from support.noted import each_case

ADDRESSES = [
    ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1:7"),
    ("[::1]", "::1", "0:0:0:0:0:0:0:1", "[::1]:7"),
    ("::", "::", "0:0:0:0:0:0:0:0", "[::]:7"),
    ("2001:DB8::7", "2001:db8::7", "2001:db8:0:0:0:0:0:7", "[2001:db8::7]:7"),
    ("::ffff:10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1:7"),
    ("::FFFF:10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1:7"),
    ("::ffff:7f00:1", "127.0.0.1", "127.0.0.1", "127.0.0.1:7"),
    ("::ffff:300.0.0.1", "::ffff:300.0.0.1", "::ffff:300.0.0.1", "[::ffff:300.0.0.1]:7"),
    ("fe80::1%eth0", "fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0", "[fe80::1%eth0]:7"),
    ("kafka.example", "kafka.example", "kafka.example", "kafka.example:7"),
    ("a:b", "a:b", "a:b", "[a:b]:7"),
    ("", "", "", ":7"),
]


@each_case("told, plain, java, to_connect", ADDRESSES)
def test_an_address_has_one_spelling_for_each_use(told: str, plain: str, java: str, to_connect: str) -> None:
    assert plain_address(told) == plain and plain_address(plain) == plain
    assert java_host(told) == java and java_host(plain) == java
    assert with_port(plain, 7) == to_connect
