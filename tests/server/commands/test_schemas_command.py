"""`ottla schemas`: a client of any registry with the API of Confluent's Schema Registry."""

from __future__ import annotations

import argparse
import base64
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Self

import pytest

import ottla
from ottla.server.commands import schemas
from support.broker.registry_calls import record_schema
from support.commands.command_runs import run_command
from support.noted import each_case

A1 = record_schema("x int")
A2 = record_schema("x int", "y int 0")
A3 = record_schema("x int", "y int 0", "z string")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ottla.Broker(schema_registry=True) as broker:
        assert broker.schema_registry is not None
        yield broker.schema_registry


def test_schemas_are_registered_shown_and_checked(url: str, tmp_path: Path) -> None:
    def schemas(*words: str, stdin: bytes = b"") -> tuple[int, str]:
        ran = run_command("schemas", *words, "--registry", url, stdin=stdin)
        assert ran.err == ""
        return ran.code, ran.out

    files = {}
    for name, text in (("a1", A1), ("a2", A2), ("a3", A3), ("b", record_schema("r R", name="B"))):
        files[name] = str(tmp_path / f"{name}.avsc")
        Path(files[name]).write_text(text)
    assert schemas("list") == (0, "no schemas\n")
    assert schemas("register", "s", files["a1"]) == (0, "s  version 1  id 1\n")
    assert schemas("register", "s", files["a1"]) == (0, "s  version 1  id 1\n")
    assert schemas("check", "s", files["a2"]) == (0, "compatible\n")
    code, out = schemas("check", "s", files["a3"], "--schema-version", "1")
    assert code == 1 and out.startswith("not compatible\n") and "READER_FIELD_MISSING_DEFAULT_VALUE" in out
    assert schemas("register", "s", "-", stdin=A2.encode()) == (0, "s  version 2  id 2\n")
    assert schemas("register", "b", files["b"], "--reference", "R=s:1") == (0, "b  version 1  id 3\n")
    header, *rows = [line.split() for line in schemas("list")[1].splitlines()]
    assert rows == [["b", "AVRO", "1", "3"], ["s", "AVRO", "1,2", "2"]] and header[0] == "SUBJECT"
    code, out = schemas("show", "b")
    assert out.startswith("b  version 1  id 3  AVRO\n  references R: s 1\n{\n")
    assert json.loads(schemas("show", "s", "--schema-version", "1", "--json")[1])["schema"] == A1
    assert json.loads(schemas("check", "s", files["a1"], "--json")[1])["is_compatible"] is True
    assert [row["subject"] for row in json.loads(schemas("list", "--json")[1])] == ["b", "s"]


@each_case(
    "words, code, line",
    [
        (("show", "none"), 1, "Subject 'none' not found."),
        (("register", "t", "BROKEN"), 1, "Invalid schema: "),
        (("register", "t", "nowhere.avsc"), 2, "cannot read nowhere.avsc: No such file or directory"),
        (("register", "t", "NOT_UTF8"), 1, "is not UTF-8 at byte 0"),
        (("register", "t", "BROKEN", "--reference", "x"), 2, "expected NAME=SUBJECT:VERSION, found 'x'"),
        (("show", "s", "--schema-version", "0"), 2, "expected a number from 1 on, or latest, found '0'"),
        (("show", ""), 2, "expected a subject, found ''"),
        (("list", "--registry", "ftp://x"), 2, "invalid URL ftp://x"),
        (("list", "--registry", "http://"), 2, "invalid URL"),
        (("list", "--registry", "localhost:1"), 2, "no schema registry at http://localhost:1"),
    ],
)
def test_a_refusal_is_one_line(words: tuple[str, ...], code: int, line: str, url: str, tmp_path: Path) -> None:
    files = {"BROKEN": tmp_path / "broken.avsc", "NOT_UTF8": tmp_path / "x.avsc"}
    files["BROKEN"].write_text("{")
    files["NOT_UTF8"].write_bytes(b"\xff")
    said = [str(files.get(word, word)) for word in words]
    ran = run_command("schemas", *said, *([] if "--registry" in words else ["--registry", url]))
    assert ran.code == code, ran
    assert line in ran.err and ran.err.count("\n") == 1, ran


class Server:
    """A server that gives one answer to every request, with status 200, and keeps what was sent to log in."""

    def __init__(self, answer: bytes) -> None:
        self.logins: list[str | None] = []
        logins = self.logins

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                logins.append(self.headers.get("authorization"))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


DEEP = b"[" * 100_000 + b"]" * 100_000
VERSION = b'{"subject": "s", "version": 1, "id": 1, "schema": "%s"}'


@each_case(
    "words, answer",
    [
        (("list",), b"<html>"),
        (("list",), b"null"),
        (("list",), b"{}"),
        (("list",), b"[1]"),
        (("list",), b'["s"]'),
        (("list",), DEEP),
        (("show", "s"), b"[]"),
        (("show", "s"), b'{"subject": "s", "version": 1, "id": 1}'),
        (("show", "s"), VERSION[:-1] % b"x" + b', "references": 3}'),
        (("show", "s"), VERSION[:-1] % b"x" + b', "references": ["x"]}'),
        (("register", "s", "-"), b"7"),
        (("register", "s", "-"), b'{"id": 1}'),
        (("check", "s", "-"), b'{"is_compatible": "no"}'),
        (("check", "s", "-"), b'{"is_compatible": false, "messages": {}}'),
    ],
)
def test_a_server_with_other_answers_is_not_a_registry(words: tuple[str, ...], answer: bytes) -> None:
    with Server(answer) as server:
        ran = run_command("schemas", *words, "--registry", server.address, stdin=b'"int"')
    assert ran.code == 2, ran
    shown = answer[:200].decode()
    assert ran.err == f"ottla: http://{server.address} is not a schema registry: status 200, {shown!r}\n"


def test_a_schema_that_is_too_deep_is_shown_as_it_is() -> None:
    with Server(VERSION % DEEP) as server:
        ran = run_command("schemas", "show", "s", "--registry", server.address)
    assert ran.code == 0 and ran.out.endswith(f"\n{DEEP.decode()}\n")


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@each_case(
    "in_url, by_option, variables, sent",
    [
        ("", True, {"OTTLA_ADMIN_TOKEN": "secret"}, None),
        ("", False, {"OTTLA_ADMIN_TOKEN": "secret"}, None),
        ("", True, {"OTTLA_REGISTRY_USER": "me:it"}, basic("me:it")),
        ("", False, {"OTTLA_REGISTRY_USER": "me:it", "OTTLA_ADMIN_TOKEN": "secret"}, basic("me:it")),
        ("a%40b:p%3Aq@", True, {"OTTLA_REGISTRY_USER": "me:it"}, basic("a@b:p:q")),
        ("a@", False, {"OTTLA_ADMIN_TOKEN": "secret"}, basic("a:")),
        ("", True, {"OTTLA_REGISTRY_USER": ""}, None),
    ],
)
def test_a_login_goes_to_the_registry_that_it_was_given_for(
    in_url: str, by_option: bool, variables: dict[str, str], sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Server(b"[]") as server:
        url = f"http://{in_url}{server.address}"
        if not by_option:
            monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY", url)
        ran = run_command("schemas", "list", *(["--registry", url] if by_option else []))
        assert ran.out == "no schemas\n", ran
    assert server.logins == [sent]


def test_the_admin_token_goes_to_the_registry_beside_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    options, environment = argparse.Namespace(registry=None), {"OTTLA_ADMIN_TOKEN": "secret"}
    with Server(b"[]") as server:
        monkeypatch.setattr(schemas, "DEFAULT_REGISTRY", f"http://{server.address}")
        schemas.RegistryClient(options, environment).ask("GET", "/subjects", [str])
    assert server.logins == ["Bearer secret"]


@each_case(
    "url, variables, line",
    [
        ("http://me:pa/ss@host", {}, "--registry: invalid URL host: expected http://HOST:PORT"),
        ("http://me:it@localhost:1", {}, "no schema registry at http://localhost:1 ("),
        ("localhost:1", {"OTTLA_REGISTRY_USER": "it"}, "OTTLA_REGISTRY_USER: expected USER:PASSWORD, found no colon"),
    ],
)
def test_no_message_contains_a_password(
    url: str, variables: dict[str, str], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ran = run_command("schemas", "list", "--registry", url)
    assert ran.code == 2 and ran.err.startswith(f"ottla: {line}")
    assert not {"it", "pa", "ss"} & set(re.split(r"\W+", ran.err)), ran


def test_a_container_s_variables_are_for_its_broker_and_for_commands_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.Broker(schema_registry=True, admin_token="secret") as broker:
        monkeypatch.setenv("OTTLA_ADMIN_TOKEN", "secret")
        monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY", f"0.0.0.0:{str(broker.schema_registry).rpartition(':')[2]}")
        assert run_command("schemas", "list").out == "no schemas\n"


def test_a_registry_with_a_token_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.Broker(schema_registry=True, admin_token="secret") as broker:
        assert broker.schema_registry is not None
        monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY", broker.schema_registry)
        ran = run_command("schemas", "list")
        assert ran.code == 1 and "(set OTTLA_REGISTRY_USER=USER:PASSWORD;" in ran.err
        monkeypatch.setenv("OTTLA_REGISTRY_USER", "any:secret")
        assert run_command("schemas", "list").out == "no schemas\n"
