"""Commands' errors when the admin listener is missing, is a different server, or refuses."""

from __future__ import annotations

import json
import socket
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.commands.admin.asking import Admin
from ottla.server.commands.frame.errors import SAID_NO, WRONG_CALL, CommandError
from support.commands.command_runs import run_command

TOKEN = "s3cret"


def admin(address: str | None = None, token_file: str | None = None, **environment: str) -> Admin:
    return Admin(Namespace(admin=address, admin_token_file=token_file), environment)


# The listener's address


@pytest.mark.parametrize(
    ("given", "environment", "address"),
    [
        (None, {}, "localhost:9099"),
        (None, {"OTTLA_ADMIN": "localhost:7"}, "localhost:7"),
        ("8", {"OTTLA_ADMIN": "localhost:7"}, "8"),
        ("[::1]:8", {}, "[::1]:8"),
        ("http://h:8/", {}, "http://h:8/"),
    ],
)
def test_the_option_beats_the_environment_beats_the_default(
    given: str | None, environment: dict[str, str], address: str
) -> None:
    assert admin(given, **environment).address == address


@pytest.mark.parametrize("address", ["h:", "h:port", "h:0", "h:65536", ":", "h:1:", "h:²"])
def test_an_invalid_address_is_one_line(address: str) -> None:
    done = run_command("status", "--admin", address)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"ottla: Invalid value {address} for --admin: must be [HOST:]PORT, port from 1 to 65535\n"


def test_an_unreachable_listener_is_reported_with_advice_to_start_one() -> None:
    done = run_command("status", "--admin", "127.0.0.1:1")
    (line,) = done.err.splitlines()
    assert done.code == 2
    assert line == (
        "ottla: no admin listener at 127.0.0.1:1 (Connection refused); start the broker with `ottla dev` or"
        " `ottla serve --admin 9099`"
    )


# The server's answer

ANSWERS = {
    "nothing": b"",
    "no HTTP": b"220 mail.example ESMTP\r\n",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "half a body": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
    "no JSON": b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>",
    "no object": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
    "a status without JSON": b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
}


@contextmanager
def answering(data: bytes, requests: list[bytes] | None = None) -> Iterator[str]:
    """Yield the address of a listener that answers one request with `data`, and closes. It adds the request to `requests`."""

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            request = connection.recv(65536)
            while request.startswith(b"POST") and not request.endswith(b"}"):
                request += connection.recv(65536)
            if requests is not None:
                requests.append(request)
            connection.sendall(data)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("compact t", {}),
        ("compact t --force --partition 0", {"force": True, "partitions": [0]}),
        ("roll t", {}),
        ("nodes move-coordinator --group g --to 0", {"group": "g", "node": 0}),
        ("faults add --api Fetch --error NOT_LEADER_OR_FOLLOWER", {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER"}),
        (
            "faults add --api Fetch --disconnect after --count all",
            {"api": "Fetch", "disconnect": "after", "count": None},
        ),
    ],
)
def test_absent_arguments_are_not_sent_to_older_brokers(line: str, body: dict[str, Any]) -> None:
    requests: list[bytes] = []
    with answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", requests) as address:
        run_command(*line.split(), "--admin", address)
    (request,) = requests
    assert json.loads(request.partition(b"\r\n\r\n")[2]) == body


@pytest.mark.parametrize("data", ANSWERS.values(), ids=ANSWERS)
def test_a_foreign_listener_is_reported_in_one_line(data: bytes) -> None:
    with answering(data) as address:
        done = run_command("nodes", "list", "--admin", address)
    (line,) = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert address in line and ("not an admin listener of Ottla" in line or "no admin listener at" in line)


def test_a_refusal_is_printed_as_its_sentence() -> None:
    body = b'{"error": "topic \'t\' not found"}'
    with (
        answering(b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)) as address,
        pytest.raises(CommandError, match=r"^topic 't' not found$", check=lambda error: error.exit_code == SAID_NO),
    ):
        admin(address).call("GET /v1/topics/{topic}", topic="t")


def test_a_displayed_address_can_be_pasted(guarded: ottla.Broker) -> None:
    assert admin(f"http://{guarded.admin}/", OTTLA_ADMIN_TOKEN=TOKEN).call("GET /v1/nodes")["nodes"]


@pytest.mark.parametrize("line", ["explain", "compact", "roll", "cases load", "snapshot", "restore"])
def test_an_empty_name_is_one_line(line: str) -> None:
    done = run_command(*line.split(), "")
    assert (done.code, done.out) == (2, "") and done.err.startswith("ottla: expected a ") and "''" in done.err


def test_names_are_quoted_in_paths(guarded: ottla.Broker) -> None:
    asked = admin(guarded.admin, OTTLA_ADMIN_TOKEN=TOKEN)
    with pytest.raises(CommandError, match=r"^topic 'a/b c\?' not found"):
        asked.call("GET /v1/topics/{topic}/explain", topic="a/b c?")


# Tokens


@pytest.fixture(scope="module")
def guarded() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin=0, admin_token=TOKEN) as broker:
        yield broker


def test_a_token_comes_from_a_file_or_from_the_environment(guarded: ottla.Broker, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    for asked in (
        admin(guarded.admin, str(tmp_path / "token")),
        admin(guarded.admin, OTTLA_ADMIN_TOKEN=TOKEN),
        admin(guarded.admin, str(tmp_path / "token"), OTTLA_ADMIN_TOKEN="another"),
    ):
        assert asked.call("GET /v1/nodes")["nodes"]
    for asked in (admin(guarded.admin), admin(guarded.admin, OTTLA_ADMIN_TOKEN="another")):
        with pytest.raises(
            CommandError,
            match=r"use --admin-token-file, or set OTTLA_ADMIN_TOKEN",
            check=lambda error: error.exit_code == SAID_NO,
        ):
            asked.call("GET /v1/nodes")


@pytest.mark.parametrize(("content", "says"), [(b"\xff", "not ASCII"), (b"a b", "invalid token")])
def test_a_file_without_a_token_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(CommandError, match=says, check=lambda error: error.exit_code == WRONG_CALL):
        admin("1", str(tmp_path / "token"))
    with pytest.raises(
        CommandError,
        match=r"--admin-token-file: cannot read .*missing: No such file",
        check=lambda error: error.exit_code == WRONG_CALL,
    ):
        admin("1", str(tmp_path / "missing"))
