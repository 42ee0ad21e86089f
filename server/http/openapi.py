"""The OpenAPI 3.1 document of the calls: what a client of any language can be made from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..control.broker_state import version
from .call import JSON_TYPE, Call, Text
from .fields import fields_of
from .schema import Schema, Schemas

AnyCall = Call[Any, Any]

EVERY_CALL = {
    400: "Malformed request: invalid path or JSON.",
    403: "The request comes from another web site, or was sent to a host name that is not this machine's.",
    422: "A field is invalid; the sentence names the field, its bound and the value.",
}
"""Statuses of refusals that any call may get, and why."""
WITH_BODY = {413: "The body is too large.", 415: "The content type is not JSON."}
WITH_TOKEN = {401: "The listener requires a token, and the request has none or another one."}
OF_A_LIFE = {503: "The broker is starting, stopping, or was stopped during the request."}
OF_ROWS = {
    404: "The resource was not found.",
    409: "The resource is in the wrong state for this request.",
    500: "The disk failed.",
    503: OF_A_LIFE[503],
    504: "The operation did not complete in time.",
}

ENDS_OF_LIVES = ("restart", "crash", "reset", "snapshot", "restore")

ERROR: Schema = {
    "type": "object",
    "description": "Why a request was rejected.",
    "properties": {"error": {"type": "string", "description": "One sentence."}},
    "required": ["error"],
    "additionalProperties": False,
}


def document(calls: Iterable[AnyCall]) -> dict[str, Any]:
    """The document, ready for JSON. Reads source files: for a worker thread.

    Raises:
        TypeError: Two dataclasses have one name, or there is a type that JSON has nothing for.
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
            "description": "Operations on an Ottla broker, in addition to the Kafka protocol.",
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
    """Every status of a refusal of this call, and why."""
    found = dict(EVERY_CALL)
    found |= WITH_BODY if call.has_body else {}
    found |= {} if call.without_token else WITH_TOKEN
    found |= {} if call.any_time else OF_A_LIFE
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
    """What the call is about, in a word."""
    found = call.path.split("/")[2].removesuffix(".json") if call.path.startswith("/v1/") else "probes"
    return "lives" if found in ENDS_OF_LIVES else found


def operation_id(call: AnyCall) -> str:
    """A name for the call: its method and the words of its path."""
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
        schema = schemas.of(call.answer)
    return {"description": "Done.", "content": {call.content_type: {"schema": schema}}}


def _refusal(why: str) -> dict[str, Any]:
    return {"description": why, "content": {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/Error"}}}}
