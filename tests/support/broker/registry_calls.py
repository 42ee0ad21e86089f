"""A client of the schema registry, with a new connection for each call."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

import ottla

TIMEOUT_S = 60
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


def record_schema(*fields: str, name: str = "R") -> str:
    """Return an Avro record; a field is `NAME TYPE`, or `NAME TYPE DEFAULT` with the default as JSON."""
    made = []
    for each in fields:
        field, kind, *default = each.split(" ", 2)
        made.append({"name": field, "type": kind} | ({"default": json.loads(default[0])} if default else {}))
    return json.dumps({"type": "record", "name": name, "fields": made}, separators=(",", ":"))


def path_of(subject: str) -> str:
    """Return a subject as a segment of a path."""
    return quote(subject, safe="")


class RegistryCalls:
    """A client of the registry at this URL."""

    def __init__(self, url: str, **headers: str) -> None:
        self.address = urlsplit(url).netloc
        self.headers = headers

    @classmethod
    def of(cls, broker: ottla.Broker) -> RegistryCalls:
        """Return a client of the broker's registry."""
        assert broker.schema_registry is not None
        return cls(broker.schema_registry)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return status and body, parsed if it is JSON. A dict or list is sent as JSON."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        data = json.dumps(body) if isinstance(body, dict | list) else body
        connection.request(method, path, data, {"Content-Type": CONTENT_TYPE} | self.headers | headers)
        response = connection.getresponse()
        text, content_type = response.read().decode(), response.getheader("content-type", "")
        connection.close()
        return response.status, json.loads(text) if content_type == CONTENT_TYPE else text

    def get(self, path: str) -> Any:
        """Return the body of a GET; AssertionError if it is refused."""
        status, answer = self.ask("GET", path)
        assert status == 200, answer
        return answer

    def register(self, subject: str, schema: str, kind: str = "AVRO", **fields: Any) -> int:
        """Register a schema and return its id; AssertionError if it is refused."""
        body = {"schema": schema, "schemaType": kind, **fields}
        status, answer = self.ask("POST", f"/subjects/{path_of(subject)}/versions", body)
        assert status == 200, answer
        return int(answer["id"])
