"""A client of the admin listener. Whatever it is answered is compared with the OpenAPI document."""

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
    """The document of all calls."""
    return json.loads(json.dumps(document(CALLS)))  # type: ignore[no-any-return]


@cache
def _validator(path: str, method: str, status: str, content_type: str) -> Draft202012Validator:
    schema = api()["paths"][path][method]["responses"][status]["content"][content_type]["schema"]
    return Draft202012Validator({**schema, "components": api()["components"]})


def check_answer(method: str, target: str, status: int, content_type: str, body: Any) -> None:
    """AssertionError unless the document has such an answer. What is no call has none."""
    try:
        call = CallTable().route(method, target).call
    except HttpRefusal:
        return
    if method != "HEAD":
        errors = list(_validator(call.path, call.method.lower(), str(status), content_type).iter_errors(body))
        assert not errors, (method, target, status, errors[0].message, body)


class AdminCalls:
    """What one asks of an admin listener, each call on a connection of its own."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    @classmethod
    def of(cls, broker: ottla.Broker, token: str | None = None) -> AdminCalls:
        """The listener of a broker that has one."""
        assert broker.admin is not None
        return cls(broker.admin, token)

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer; an object as JSON, other text as it is. A dict or list is sent as JSON, all else as it is."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        data = json.dumps(body) if isinstance(body, dict | list) else body
        sent = {"Content-Type": "application/json"} | self.headers | headers
        connection.request(method, target, data, sent)
        response = connection.getresponse()
        text, content_type = response.read().decode(), response.getheader("content-type", "")
        connection.close()
        answer = json.loads(text) if content_type == "application/json" else text
        if not headers:  # else it may be refused before it is a call
            check_answer(method, urlsplit(target).path, response.status, content_type, answer)
        return response.status, answer

    def get(self, target: str) -> Any:
        """What is asked for; AssertionError where it is refused."""
        status, answer = self.ask("GET", target)
        assert status == 200, answer
        return answer

    def post(self, target: str, **fields: Any) -> Any:
        """What was done; AssertionError where it is refused."""
        status, answer = self.ask("POST", target, fields)
        assert status == 200, answer
        return answer
