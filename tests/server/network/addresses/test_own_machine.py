"""The addresses of a broker on machines whose `localhost` is ::1 first, and on those without IPv6."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from support.addresses.own_machine import run_on_own_machine
from support.sizes import some

REFUSED = "Connection refused"
NO_IPV6 = "Cannot assign requested address"
V6 = "0:0:0:0:0:0:0:1"
"""The form in which Apache Kafka writes it."""
BOTH = {"127.0.0.1": "127.0.0.1", "::1": V6, "localhost": V6}
IPV4 = {"127.0.0.1": "127.0.0.1", "::1": NO_IPV6, "localhost": "127.0.0.1"}


def found_there(folder: Path, *names: str, ipv6: bool) -> dict[str, Any]:
    found = run_on_own_machine(folder, "-m", "support.addresses.reached", *names, ipv6=ipv6)
    return dict(json.loads(found))


def test_a_client_finds_the_broker_at_either_loopback(tmp_path: Path) -> None:
    found = found_there(tmp_path, "localhost", "both.test", "six.test", "127.0.0.1", "[::1]", "", ipv6=True)
    this = socket.gethostname()
    assert found == {
        "localhost": {"ready": "localhost", "told": "localhost", "at": BOTH},
        "both.test": {"ready": "both.test", "told": "both.test", "at": BOTH},
        "six.test": {
            "ready": "six.test",
            "told": "six.test",
            "at": {"127.0.0.1": REFUSED, "::1": V6, "localhost": V6},
        },
        "127.0.0.1": {
            "ready": "127.0.0.1",
            "told": "127.0.0.1",
            "at": {"127.0.0.1": "127.0.0.1", "::1": REFUSED, "localhost": REFUSED},
        },
        "[::1]": {"ready": "[::1]", "told": "::1", "at": {"127.0.0.1": REFUSED, "::1": V6, "localhost": V6}},
        "": {"ready": "localhost", "told": this, "at": BOTH},
        "0.0.0.0": {"ready": "0.0.0.0", "told": "broker.example", "at": BOTH},
        "controller": {"at": dict.fromkeys(BOTH, "connected")},
        "http": {"ready": "localhost", "at": dict.fromkeys(BOTH, 200)},
        "http everywhere": {"ready": "0.0.0.0", "at": dict.fromkeys(BOTH, 200)},
    }


def test_without_ipv6_the_broker_serves_ipv4(tmp_path: Path) -> None:
    found = found_there(tmp_path, "localhost", "both.test", "", ipv6=False)
    this = socket.gethostname()
    assert found == {
        "localhost": {"ready": "localhost", "told": "localhost", "at": IPV4},
        "both.test": {"ready": "both.test", "told": "both.test", "at": IPV4},
        "": {"ready": "localhost", "told": this, "at": IPV4},
        "0.0.0.0": {"ready": "0.0.0.0", "told": "broker.example", "at": IPV4},
        "controller": {"at": {"127.0.0.1": "connected", "::1": NO_IPV6, "localhost": "connected"}},
        "http": {"ready": "localhost", "at": {"127.0.0.1": 200, "::1": NO_IPV6, "localhost": 200}},
        "http everywhere": {"ready": "0.0.0.0", "at": {"127.0.0.1": 200, "::1": NO_IPV6, "localhost": 200}},
    }


COMMANDS = {
    "ottla dev": ("localhost", ["ottla.server", "dev"]),
    "make run": (
        "localhost",
        [
            "ottla.server",
            "serve",
            "--profile",
            "dev",
            "--listener",
            "localhost:9092",
            "--data",
            "DIR",
            "--admin",
            "9099",
        ],
    ),
    "profile dev": ("localhost", ["ottla.server", "serve", "--profile", "dev", "--data", "DIR", "--admin", "9099"]),
    "profile kafka": ("localhost", ["ottla.server", "serve", "--data", "DIR", "--admin", "9099"]),
    "the image": ("0.0.0.0", ["ottla.server.commands.container", "--data", "DIR", "--admin", "9099"]),
    "the image, dev": ("0.0.0.0", ["ottla.server.commands.container", "dev", "--data", "DIR"]),
}


@pytest.mark.parametrize(("ready", "words"), [pytest.param(*COMMANDS[name], id=name) for name in some(COMMANDS, 1)])
def test_each_command_serves_at_both_loopbacks(ready: str, words: list[str], tmp_path: Path) -> None:
    words = [str(tmp_path / "data") if word == "DIR" else word for word in words]
    found = json.loads(run_on_own_machine(tmp_path, "-m", "support.addresses.command_reached", *words, ipv6=True))
    assert found == {"ready": f"{ready}:9092", **dict.fromkeys(BOTH, 200)}
