"""Schemas from a registry over HTTP, and from a folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ottla.pipeline.apply.registry import registry
from ottla.pipeline.errors import PipelineError, SparkFailedError, UsageError

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
ANSWERS = {
    "/schemas/ids/7": (200, {"schema": SCHEMA}),
    "/subjects/a%2Fb-value/versions/latest": (200, {"id": 7, "version": 1, "schema": SCHEMA}),
    "/schemas/ids/8": (200, {"schema": "syntax", "schemaType": "PROTOBUF"}),
    "/schemas/ids/9": (200, {"schema": SCHEMA, "references": [{"name": "x"}]}),
    "/schemas/ids/10": (500, {}),
    "/schemas/ids/11": (200, ["no object"]),
}


class Answers(BaseHTTPRequestHandler):
    """A registry of a few schemas, which wants a user."""

    def do_GET(self) -> None:
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


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_schemas_are_found_by_id_and_by_subject(address: str) -> None:
    found = registry(f"http://me:hush%21@{address}/")
    assert found.by_id(7) == found.latest("a/b-value") == SCHEMA


@pytest.mark.parametrize(
    ("schema_id", "kind", "said"),
    [
        (1, UsageError, "expected schema 1, found none"),
        (8, UsageError, "expected an Avro schema as schema 8, found PROTOBUF"),
        (9, UsageError, "refers to other schemas"),
        (10, SparkFailedError, "500"),
        (11, SparkFailedError, "expected an object with `schema`"),
    ],
)
def test_what_is_no_schema_is_one_line(address: str, schema_id: int, kind: type[PipelineError], said: str) -> None:
    with pytest.raises(kind, match=said) as refused:
        registry(f"http://me:hush%21@{address}").by_id(schema_id)
    assert "hush" not in str(refused.value)


def test_a_registry_that_is_down_or_wants_a_password(address: str) -> None:
    with pytest.raises(UsageError, match="401 Unauthorized: expected user:password@"):
        registry(f"http://{address}").by_id(7)
    with pytest.raises(SparkFailedError, match="does not answer"):
        registry("http://127.0.0.1:1").by_id(7)
    with pytest.raises(UsageError, match="--registry: expected"):
        registry("registry:8081")


def test_a_folder_has_a_file_for_each_id(tmp_path: Path) -> None:
    for name in ("9", "10", "orders-value"):
        (tmp_path / f"{name}.avsc").write_text(f'"{name}"')
    found = registry(str(tmp_path))
    assert (found.by_id(9), found.latest("orders-value"), found.latest("others-value")) == (
        '"9"',
        '"orders-value"',
        '"10"',
    )
    with pytest.raises(UsageError, match=r"11\.avsc: expected the schema of that id, found no file"):
        found.by_id(11)
