"""The call that a request selects."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.server.http.access import HttpRefusal
from ottla.server.http.call import Call, Nothing, Supervisor
from ottla.server.http.table import CALLS, CallTable
from support.noted import each_case


async def nothing(supervisor: Supervisor, request: Nothing) -> Nothing:
    return request


def call(method: Any, path: str) -> Call[Any, Any]:
    return Call(method, path, "", Nothing, Nothing, nothing)


TABLE = CallTable(
    [
        call("GET", "/v1/topics"),
        call("GET", "/v1/topics/{topic}"),
        call("DELETE", "/v1/topics/{topic}"),
        call("POST", "/v1/topics/{topic}/compact"),
        call("POST", "/v1/topics/all/compact"),
    ]
)

ROUTES = [
    ("GET", "/v1/topics", "/v1/topics", []),
    ("HEAD", "/v1/topics?a=b", "/v1/topics", []),
    ("GET", "/v1/topics/t", "/v1/topics/{topic}", [("topic", "t")]),
    ("DELETE", "/v1/topics/t", "/v1/topics/{topic}", [("topic", "t")]),
    ("GET", "/v1/topics/%7Bt%2Fu%7d", "/v1/topics/{topic}", [("topic", "{t/u}")]),
    ("GET", "/v1/topics/%C3%BC%00+", "/v1/topics/{topic}", [("topic", "ü\0+")]),
    ("POST", "/v1/topics/t/compact", "/v1/topics/{topic}/compact", [("topic", "t")]),
    ("POST", "/v1/topics/all/compact", "/v1/topics/all/compact", []),
    ("GET", "http://localhost:1/v1/topics", "/v1/topics", []),
]


@pytest.mark.parametrize(("method", "target", "path", "fields"), ROUTES)
def test_a_target_selects_a_call(method: str, target: str, path: str, fields: list[tuple[str, str]]) -> None:
    route = TABLE.route(method, target)
    assert (route.call.path, route.from_path) == (path, fields)


NO_CALLS = [
    ("GET", "/v1/topic", 404, "/v1/topic not found; the closest is GET /v1/topics"),
    ("POST", "/v1/topics/t/compct", 404, "the closest is POST /v1/topics/{topic}/compact"),
    ("GET", "/v1/topics/", 404, "the closest is GET /v1/topics"),
    ("GET", "/", 404, "/ not found; the closest is GET "),
    ("GET", "*", 404, "* not found; "),
    ("GET", "/" + "x" * 10_000, 404, "/xxx"),
    ("PUT", "/v1/topics/t", 405, "/v1/topics/t: method PUT is not allowed; use GET, DELETE"),
    ("POST", "/v1/topics", 405, "/v1/topics: method POST is not allowed; use GET"),
    ("GET", "/v1/topics/%ff", 400, "path segment '%ff' is not valid UTF-8"),
    ("GET", "http://[x/v1", 400, "invalid path 'http://[x/v1'"),
]


@each_case("method, target, status, sentence", NO_CALLS)
def test_an_unknown_call_is_answered_with_the_nearest(method: str, target: str, status: int, sentence: str) -> None:
    with pytest.raises(HttpRefusal) as refused:
        TABLE.route(method, target)
    assert refused.value.status == status and sentence in str(refused.value)
    assert len(str(refused.value)) < 500


def test_each_row_is_found_by_its_own_path() -> None:
    table = CallTable()
    for each in CALLS:
        target = each.path.replace("{", "%7B").replace("}", "%7D")
        assert table.route(each.method, target).call is each
