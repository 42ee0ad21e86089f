"""`ottla schemas`: a client of any registry with the API of Confluent's Schema Registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

import ottla
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


class SaysSomethingElse(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_another_server_is_recognized() -> None:
    with HTTPServer(("127.0.0.1", 0), SaysSomethingElse) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        ran = run_command("schemas", "list", "--registry", f"127.0.0.1:{server.server_port}")
        thread.join()
    assert ran.code == 2
    assert "is not a schema registry: status 200, '<html>'" in ran.err


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with ottla.Broker(schema_registry=True, admin_token="secret") as broker:
        assert broker.schema_registry is not None
        monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY", broker.schema_registry)
        ran = run_command("schemas", "list")
        assert ran.code == 1 and "(set OTTLA_ADMIN_TOKEN)" in ran.err
        monkeypatch.setenv("OTTLA_ADMIN_TOKEN", "secret")
        assert run_command("schemas", "list").out == "no schemas\n"
