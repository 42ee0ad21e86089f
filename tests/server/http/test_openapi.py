"""The OpenAPI document is complete, and docs/admin.md lists its calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

import ottla
from ottla.server.http.call import Text
from ottla.server.http.fields import doc_of, docs_of, fields_of
from ottla.server.http.openapi import document
from ottla.server.http.table import CALLS
from support.broker.admin_calls import AdminCalls, api
from support.broker.calls_listed import BEGIN, END, calls_listed
from support.noted import each_case
from support.sizes import some

GUIDE = Path(ottla.__file__).parent / "docs" / "admin.md"


def test_the_document_is_valid_openapi() -> None:
    validate(json.loads(json.dumps(document(some(CALLS, 8)))))


def test_the_document_contains_every_call() -> None:
    operations = {(path, method): each for path, methods in api()["paths"].items() for method, each in methods.items()}
    assert operations.keys() == {(call.path, call.method.lower()) for call in CALLS}
    ids = [each["operationId"] for each in operations.values()]
    assert len(set(ids)) == len(CALLS)


@each_case("call", CALLS)
def test_the_document_contains_every_request_field(call: Any) -> None:
    operation = api()["paths"][call.path][call.method.lower()]
    parameters = {each["name"]: each["in"] for each in operation.get("parameters", [])}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    in_body = body.get("properties", {})
    assert parameters.keys() | in_body.keys() == fields_of(call.request).keys()
    assert not parameters.keys() & in_body.keys()
    in_path = set(re.findall(r"\{(\w+)\}", call.path))
    assert {name for name, where in parameters.items() if where == "path"} == in_path <= fields_of(call.request).keys()
    for schema in in_body.values():
        Draft202012Validator.check_schema({**schema, "components": api()["components"]})


@each_case("call", CALLS)
def test_every_call_has_a_description(call: Any) -> None:
    assert re.fullmatch(r"[A-Z][^\n]*\.", call.doc), call.doc
    assert call.answer is Text or not fields_of(call.answer) or doc_of(call.answer)


def test_fields_are_described() -> None:
    described = api()["components"]["schemas"]["CleaningStatus"]["properties"]
    assert described["data_dir"] == {"type": "string", "description": "Absolute path with symbolic links resolved."}
    assert described["segments"]["items"] == {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "integer"}],
        "minItems": 2,
        "maxItems": 2,
    }
    assert docs_of(next(call.request for call in CALLS if call.path == "/v1/cleaning/pause"))["lease_ms"]


def test_the_listener_serves_the_document(admin: AdminCalls) -> None:
    assert admin.get("/v1/openapi.json") == api()


@pytest.fixture
def admin() -> Iterator[AdminCalls]:
    with ottla.Broker(admin="0") as broker:
        yield AdminCalls.of(broker)


def test_the_guide_lists_the_calls() -> None:
    """`python -m support.broker.calls_listed` in tests/ rewrites the list."""
    text = GUIDE.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == calls_listed()
