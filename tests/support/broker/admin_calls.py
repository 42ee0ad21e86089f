"""A client of the admin listener that compares every answer with the OpenAPI document."""

from __future__ import annotations

import http.client
import json
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator

import ottla
from ottla.server.http.access import HttpRefusal
from ottla.server.http.openapi import document
from ottla.server.http.table import CALLS, CallTable

TIMEOUT_S = 60


@cache
def api() -> dict[str, Any]:
    """Return the OpenAPI document of all calls."""
    return json.loads(json.dumps(document(CALLS)))  # type: ignore[no-any-return]


@cache
def _validator(path: str, method: str, status: str, content_type: str) -> Draft202012Validator:
    schema = api()["paths"][path][method]["responses"][status]["content"][content_type]["schema"]
    return Draft202012Validator({**schema, "components": api()["components"]})


def check_answer(method: str, target: str, status: int, content_type: str, body: Any) -> None:
    """Raise AssertionError unless the document has such an answer. A request that is not a call has none."""
    try:
        call = CallTable().route(method, target).call
    except HttpRefusal:
        return
    if method != "HEAD":
        errors = list(_validator(call.path, call.method.lower(), str(status), content_type).iter_errors(body))
        assert not errors, (method, target, status, errors[0].message, body)


class AdminCalls:
    """A client of an admin listener, with a new connection for each call."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    @classmethod
    def of(cls, broker: ottla.Broker, token: str | None = None) -> AdminCalls:
        """Return a client of the broker's admin listener."""
        assert broker.admin is not None
        return cls(broker.admin, token)

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and answer: an object is parsed as JSON, other text stays as it is. A dict or list is sent as JSON."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        data = json.dumps(body) if isinstance(body, dict | list) else body
        sent = {"Content-Type": "application/json"} | self.headers | headers
        connection.request(method, target, data, sent)
        response = connection.getresponse()
        text, content_type = response.read().decode(), response.getheader("content-type", "")
        connection.close()
        answer = json.loads(text) if content_type == "application/json" else text
        if not headers:  # else it may be refused before the broker parses the call
            check_answer(method, urlsplit(target).path, response.status, content_type, answer)
        return response.status, answer

    def get(self, target: str) -> Any:
        """Return the answer of a GET; AssertionError if it is refused."""
        status, answer = self.ask("GET", target)
        assert status == 200, answer
        return answer

    def post(self, target: str, **fields: Any) -> Any:
        """Return the answer of a POST; AssertionError if it is refused."""
        status, answer = self.ask("POST", target, fields)
        assert status == 200, answer
        return answer
