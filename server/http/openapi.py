"""OpenAPI 3.1 document of the calls, from which clients in any language can be generated.

It has JSON Schemas (2020-12) of requests and responses.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from ..control.broker_state import version
from ..control.operation import INT64_MAX, Length, Matches, Range
from .call import JSON_TYPE, Call, Text
from .fields import HttpField, doc_of, docs_of, fields_of, is_object, stripped
from .json_values import is_union, json_form

AnyCall = Call[Any, Any]

EVERY_CALL = {
    400: "Malformed request: invalid path or JSON.",
    403: "Request from a web page, or to a host name other than this machine's.",
    422: "A field is invalid; the message contains its name, the bound and the value found.",
}
"""Statuses of errors that any call may return, with their reasons."""
WITH_BODY = {413: "The body is too large.", 415: "The content type of the body is not JSON."}
WITH_TOKEN = {401: "The listener requires a token, and the request has none or another one."}
WHILE_IT_RUNS = {503: "The broker is starting, stopping, or was stopped during the call."}
OF_ROWS = {
    404: "Not found.",
    409: "Not possible in the current state.",
    500: "The disk failed.",
    503: WHILE_IT_RUNS[503],
    504: "Timed out.",
}

ENDS_OF_RUNS = ("restart", "crash", "reset", "snapshot", "restore")

ERROR: Schema = {
    "type": "object",
    "description": "Why a call failed.",
    "properties": {"error": {"type": "string", "description": "One sentence."}},
    "required": ["error"],
    "additionalProperties": False,
}

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    types.NoneType: {"type": "null"},
}


class Schemas:
    """Schemas of dataclasses, made from their annotations alone, each once under its name.

    `components` grows with each new type.

    Args:
        of_answers: Schemas of responses, which always have all fields. In requests, fields with a default are optional.
    """

    def __init__(self, *, of_answers: bool) -> None:
        self.components: dict[str, Schema] = {}
        self._of_answers = of_answers
        self._classes: dict[str, type] = {}

    def schema_of(self, kind: Any, marks: tuple[Any, ...] = ()) -> Schema:
        """Return the schema of a type; for a dataclass, a reference to its component."""
        kind, inner = stripped(kind)
        return self._make_schema(kind) | _bounds(marks + inner, kind)

    def field(self, cls: type, field: HttpField) -> Schema:
        """Return the schema of a field, with its description and default."""
        found = self.schema_of(field.type, field.marks)
        if doc := docs_of(cls).get(field.name):
            found["description"] = doc
        if field.default is not MISSING and not self._of_answers:
            found["default"] = json_form(field.default)
        return found

    def _make_schema(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is float and self._of_answers:
            return {"type": ["number", "null"]}  # infinite numbers and NaN are null
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if is_object(kind):
            return {"$ref": f"#/components/schemas/{self._component(kind)}"}
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [member.value for member in kind]}
        if is_union(kind):
            return _any_of([self.schema_of(each) for each in arguments])
        if origin is tuple and arguments[1:] != (...,):
            prefix = [self.schema_of(each) for each in arguments]
            return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "maxItems": len(prefix)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema_of(arguments[1])}
        if origin in (tuple, Iterable, Sequence):
            return {"type": "array", "items": self.schema_of(arguments[0])}
        raise TypeError(f"type {kind} has no schema")

    def _component(self, cls: type) -> str:
        name = cls.__name__ if self._of_answers else f"{cls.__name__.removesuffix('Request')}Request"
        if self._classes.setdefault(name, cls) is not cls:
            raise TypeError(f"duplicate dataclass name {name}: {self._classes[name]} and {cls}")
        if name not in self.components:
            self.components[name] = {}  # it may contain itself
            known = fields_of(cls)
            found: Schema = {
                "type": "object",
                "properties": {field.name: self.field(cls, field) for field in known.values()},
                "required": [field.name for field in known.values() if self._of_answers or field.is_required],
                "additionalProperties": False,
            }
            if doc := doc_of(cls):
                found["description"] = doc
            self.components[name] = found
        return name


def _any_of(arms: list[Schema]) -> Schema:
    """Return the schema of a union; if all arms are bare types, a list of types."""
    if all(arm.keys() <= {"type"} and arm for arm in arms):
        kinds = [arm["type"] if isinstance(arm["type"], list) else [arm["type"]] for arm in arms]
        return {"type": list(dict.fromkeys(kind for each in kinds for kind in each))}
    return {"anyOf": arms}


def _bounds(marks: tuple[Any, ...], kind: Any) -> Schema:
    found: Schema = {}
    for mark in marks:
        match mark:
            case Range(low, high):
                found |= {"minimum": low} | ({"maximum": high} if high < INT64_MAX else {})
            case Length(low, high):
                lowest, highest = ("minLength", "maxLength") if kind is str else ("minItems", "maxItems")
                found |= ({lowest: low} if low else {}) | ({highest: high} if high < INT64_MAX else {})
            case Matches(pattern):
                found["pattern"] = f"^(?:{pattern})$"
    return found


def document(calls: Iterable[AnyCall]) -> dict[str, Any]:
    """Return the document, ready for JSON. Reads source files: for a worker thread.

    Raises:
        TypeError: Two dataclasses have one name, or a type has no JSON form.
    """
    requests, answers = Schemas(of_answers=False), Schemas(of_answers=True)
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, requests, answers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ottla's control API",
            "version": version(),
            "description": "Operations of an Ottla broker for developers, in addition to Kafka's protocol.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR} | answers.components | requests.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def refusals(call: AnyCall) -> dict[int, str]:
    """Return every error status of this call, with its reason."""
    found = dict(EVERY_CALL)
    found |= WITH_BODY if call.has_body else {}
    found |= {} if call.without_token else WITH_TOKEN
    found |= {} if call.any_time else WHILE_IT_RUNS
    found |= {status: OF_ROWS[status] for status in call.statuses if status not in found}
    return dict(sorted(found.items()))


def _operation(call: AnyCall, requests: Schemas, answers: Schemas) -> dict[str, Any]:
    in_path = re.findall(r"\{(\w+)\}", call.path)
    known = fields_of(call.request)
    elsewhere = [name for name in known if name not in in_path]
    parameters = list(_parameters(call, in_path, requests))
    found: dict[str, Any] = {
        "operationId": operation_id(call),
        "summary": call.doc,
        "tags": [subject(call)],
        "responses": {"200": _answer(call, answers)}
        | {str(status): _refusal(why) for status, why in refusals(call).items()},
        "security": [{}] if call.without_token else [{"token": []}, {}],
    }
    if parameters:
        found["parameters"] = parameters
    if call.has_body:
        required = [name for name in elsewhere if known[name].is_required]
        schema = {
            "type": "object",
            "properties": {name: requests.field(call.request, known[name]) for name in elsewhere},
            "required": required,
            "additionalProperties": False,
        }
        found["requestBody"] = {"required": bool(required), "content": {JSON_TYPE: {"schema": schema}}}
    return found


def subject(call: AnyCall) -> str:
    """Return the subject of the call, in one word."""
    found = call.path.split("/")[2].removesuffix(".json") if call.path.startswith("/v1/") else "probes"
    return "runs" if found in ENDS_OF_RUNS else found


def operation_id(call: AnyCall) -> str:
    """Return a name for the call: its method and the words of its path."""
    words = re.findall(r"\w+", call.path.removeprefix("/v1"))
    return "_".join([call.method.lower(), *words])


def _parameters(call: AnyCall, in_path: list[str], schemas: Schemas) -> Iterator[dict[str, Any]]:
    for name, field in fields_of(call.request).items():
        if name not in in_path and call.has_body:
            continue
        schema = schemas.field(call.request, field)
        told = {"description": schema.pop("description")} if "description" in schema else {}
        where = "path" if name in in_path else "query"
        yield {"name": name, "in": where, "required": field.is_required or where == "path", **told, "schema": schema}


def _answer(call: AnyCall, schemas: Schemas) -> dict[str, Any]:
    if call.answer is Text:
        schema: Schema = {"type": "object"} if call.content_type == JSON_TYPE else {"type": "string"}
    else:
        schema = schemas.schema_of(call.answer)
    return {"description": "Done.", "content": {call.content_type: {"schema": schema}}}


def _refusal(why: str) -> dict[str, Any]:
    return {"description": why, "content": {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}}
