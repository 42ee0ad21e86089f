"""Schemas from a registry over HTTP or HTTPS, and from a folder."""

from __future__ import annotations

import json
import pickle
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ottla.pipeline.errors import ExitCode, PipelineError, UsageError
from ottla.pipeline.registry import CA, USER, Registry, registry_address
from ottla.protocol.schemas import InvalidSchema
from support.security.certificates import authority, server

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
USES = (
    '{"type": "record", "name": "u", "fields": [{"name": "one", "type": "r"}, {"name": "more", "type": ["null", "r"]}]}'
)
ANSWERS = {
    "/schemas/ids/7": (200, {"schema": SCHEMA}),
    "/subjects/a%2Fb-value/versions/latest": (200, {"id": 7, "version": 1, "schema": SCHEMA}),
    "/schemas/ids/8": (200, {"schema": "syntax", "schemaType": "PROTOBUF"}),
    "/schemas/ids/9": (200, {"schema": SCHEMA, "references": [{"name": "x"}]}),
    "/schemas/ids/10": (500, {}),
    "/schemas/ids/11": (200, ["no object"]),
    "/schemas/ids/12": (200, {"schema": USES, "references": [{"name": "s", "subject": "a/b-value", "version": 1}]}),
    "/schemas/guids/0-0": (200, {"schema": USES, "references": [{"name": "s", "subject": "a/b-value", "version": 1}]}),
    "/subjects/a%2Fb-value/versions/1?deleted=true": (200, {"id": 7, "version": 1, "schema": SCHEMA}),
    "/schemas/ids/13": (200, {"schema": USES, "references": [{"name": "s", "subject": "x", "version": 1}]}),
    "/schemas/ids/14": (200, {"schema": USES, "references": [{"name": "s", "subject": "y", "version": 1}]}),
    "/subjects/y/versions/1?deleted=true": (
        200,
        {"schema": USES, "references": [{"name": "s", "subject": "y", "version": 1}]},
    ),
    "/schemas/ids/15": (200, {"schema": '{"type": "record"}'}),
}


POLL_S = 0.01
"""Interval at which a server checks whether it must end."""


class Answers(BaseHTTPRequestHandler):
    """A registry of a few schemas that requires a user."""

    def do_GET(self) -> None:
        if "?to=" in self.path:
            self.send_response(302)
            self.send_header("Location", self.path.partition("?to=")[2].partition("/schemas")[0].replace("|", "/"))
            self.end_headers()
            return
        status, found = ANSWERS.get(self.path, (404, {}))
        if self.headers["Authorization"] != "Basic bWU6aHVzaCE=":
            status, found = 401, {}
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Stranger(BaseHTTPRequestHandler):
    """A server that records what it receives."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(f"{self.path} {self.headers['Authorization']}")
        self.send_response(404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        if context is not None:
            http.socket = context.wrap_socket(http.socket, server_side=True)
        http.handle_error = lambda request, client_address: None  # type: ignore[method-assign]  # a client may refuse to talk
        thread = threading.Thread(target=http.serve_forever, args=(POLL_S,))
        thread.start()
        yield f"127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


def opened(place: str, environment: Mapping[str, str] | None = None) -> Registry:
    return registry_address(place, environment or {}).opened()


@pytest.fixture
def address() -> Iterator[str]:
    with serving(Answers) as address:
        yield address


def test_schemas_are_found_by_id_and_by_subject(address: str) -> None:
    found = opened(f"http://me:hush%21@{address}/")
    assert found.by_id(7) == found.latest("a/b-value") == SCHEMA


@pytest.mark.parametrize(
    ("schema_id", "kind", "said"),
    [
        (1, UsageError, "expected schema 1, found none"),
        (8, UsageError, "expected an Avro schema as schema 8, found PROTOBUF"),
        (13, UsageError, "schema 13: references: x version 1 not found"),
        (14, UsageError, "schema 14: references: they lead back to themselves"),
        (10, PipelineError, "500"),
        (9, PipelineError, "expected an object with `schema`"),
        (11, PipelineError, "expected an object with `schema`"),
    ],
)
def test_an_invalid_schema_is_reported_in_one_line(
    address: str, schema_id: int, kind: type[PipelineError], said: str
) -> None:
    with pytest.raises(kind, match=said) as refused:
        opened(f"http://me:hush%21@{address}").by_id(schema_id)
    assert type(refused.value) is kind
    assert "hush" not in str(refused.value)


def test_the_environments_user_is_added_to_a_url_without_one(address: str) -> None:
    assert opened(f"http://{address}", {USER: "me:hush!"}).by_id(7) == SCHEMA
    assert opened(f"http://me:hush%21@{address}", {USER: "you:x"}).by_id(7) == SCHEMA
    with pytest.raises(UsageError, match=r"^OTTLA_REGISTRY_USER: expected USER:PASSWORD, found no colon$"):
        opened(f"http://{address}", {USER: "hush"})


def test_schemas_have_the_types_that_they_reference(address: str) -> None:
    found = opened(f"http://me:hush%21@{address}")
    record = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    assert json.loads(found.by_id(12))["fields"] == [
        {"name": "one", "type": record},
        {"name": "more", "type": ["null", "r"]},
    ]
    for which in (12, "0-0"):
        schema = found.schema(which)
        assert schema is not None and list(schema.references) == ["s"]
    assert found.schema(1) is found.schema("1-1") is None
    for which, said in ((13, "x version 1 not found"), (14, "lead back"), (15, "name")):
        with pytest.raises(InvalidSchema, match=said):
            found.schema(which)


def test_the_environment_names_the_authorities_that_are_trusted(tmp_path: Path) -> None:
    (ca := tmp_path / "ca.pem").write_text(authority().certificate)
    (own := tmp_path / "server.pem").write_text(server().key + server().certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    with serving(Answers, context) as address:
        url = f"https://me:hush%21@localhost:{address.rpartition(':')[2]}"
        with pytest.raises(PipelineError, match=r"does not answer: .*certificate"):
            opened(url).by_id(7)
        assert opened(url, {CA: str(ca)}).by_id(7) == SCHEMA
    (tmp_path / "other").write_text("no certificate")
    for name in ("absent", "other"):
        with pytest.raises(UsageError, match=r"^OTTLA_REGISTRY_CA: expected a file of certificates in PEM"):
            opened("https://localhost", {CA: str(tmp_path / name)})


def test_an_address_is_passed_to_tasks_and_shown_without_its_password() -> None:
    address = registry_address("http://me:hush@host", {USER: "you:hush"})
    assert pickle.loads(pickle.dumps(address)) == address
    assert "hush" not in repr(address)


@pytest.mark.parametrize("to", ["/schemas/ids/7", "http://{same}/schemas/ids/7", "//{same}/schemas/ids/7"])
def test_a_redirect_within_the_registry_is_followed(address: str, to: str) -> None:
    to = to.format(same=address).replace("/", "|")
    assert opened(f"http://me:hush%21@{address}/a?to={to}").by_id(7) == SCHEMA


@pytest.mark.parametrize(
    "to",
    [
        "http://{other}/",
        "//{other}/",
        "http://localhost:{other_port}/",
        "http://localhost:{port}/",
        "https://{same}/",
        "http://me:hush%21@{other}/",
        "http://{same}@{other}/",
        "http://[::1]:{port}/",
        "http://127.0.0.1/",
    ],
)
def test_no_redirect_takes_a_password_to_another_server(address: str, to: str) -> None:
    with serving(Stranger) as other:
        ports = {"port": address.partition(":")[2], "other_port": other.partition(":")[2]}
        there = to.format(same=address, other=other, **ports).replace("/", "|")
        with pytest.raises(UsageError, match="redirected to another server") as refused:
            opened(f"http://me:hush%21@{address}/a?to={there}").by_id(7)
        assert "hush" not in str(refused.value)
        assert not Stranger.seen


@pytest.mark.parametrize("place", ["http://me:hush@[x", "http://me:hush@x:y/", "htps://me:hush@x"])
def test_an_invalid_url_is_reported_without_its_password(place: str) -> None:
    with pytest.raises(UsageError, match=r"^registry: expected http") as refused:
        opened(place)
    assert "hush" not in str(refused.value)


def test_an_unreachable_registry_or_a_missing_password_is_reported(address: str) -> None:
    with pytest.raises(
        UsageError, match="401 Unauthorized: expected OTTLA_REGISTRY_USER=USER:PASSWORD in the environment"
    ):
        opened(f"http://{address}").by_id(7)
    for host in ("127.0.0.1:1", "ü..x:1", "a b:1"):
        with pytest.raises(
            PipelineError, match="does not answer", check=lambda error: error.exit_code == ExitCode.FAILED
        ):
            opened(f"http://{host}").by_id(7)
    with pytest.raises(UsageError, match=r"^registry: expected"):
        opened("registry:8081")


def test_a_folder_has_a_file_for_each_id(tmp_path: Path) -> None:
    for name in ("9", "10", "orders-value"):
        (tmp_path / f"{name}.avsc").write_text(f'"{name}"')
    found = opened(str(tmp_path))
    assert (found.by_id(9), found.latest("orders-value"), found.latest("others-value")) == (
        '"9"',
        '"orders-value"',
        '"10"',
    )
    with pytest.raises(UsageError, match=r"11\.avsc: expected a schema, file not found"):
        found.by_id(11)
