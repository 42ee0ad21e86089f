"""Table of all calls, and routing of requests."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from functools import cache
from itertools import zip_longest
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ..control import (
    acls,
    broker_state,
    clock,
    compaction,
    connections,
    dry_run,
    explain,
    faults,
    groups,
    leases,
    nodes,
    pictures,
    quotas,
    records,
    segments,
    status,
    supervisor,
    topic_configs,
    topics,
    transactions,
    waits,
)
from ..control.cases import load
from ..control.operation import OPERATIONS, Nothing
from ..control.seed import seeding
from ..runtime.threads import in_worker
from .access import HttpRefusal
from .call import Call, Supervisor, Text, call_of
from .calls import CALLS as TEXTS
from .openapi import document

AnyCall = Call[Any, Any]


async def _openapi(supervisor: Supervisor, request: Nothing) -> Text:
    return Text(await in_worker(_document, CALLS))


@cache
def _document(calls: tuple[AnyCall, ...]) -> str:
    return json.dumps(document(calls))


_DECLARING = (
    explain,
    dry_run,
    acls,
    quotas,
    broker_state,
    status,
    connections,
    nodes,
    pictures,
    load,
    clock,
    compaction,
    segments,
    faults,
    groups,
    waits,
    transactions,
    records,
    topics,
    topic_configs,
    supervisor,
    leases,
    seeding,
)
CALLS: tuple[AnyCall, ...] = (
    *TEXTS,
    Call("GET", "/v1/openapi.json", "Get this API as an OpenAPI 3.1 document.", Nothing, Text, _openapi, any_time=True),
    *(call_of(each) for module in _DECLARING for each in OPERATIONS if each.function.__module__ == module.__name__),
)

SHOWN = 100
"""Maximum characters of a path that are compared, or shown in an error."""


class Route(NamedTuple):
    """The call of a request, with the values in the request's target."""

    call: AnyCall
    from_path: list[tuple[str, str]]
    """Name and text of each field in the path, percent-decoded."""
    query: str


class CallTable:
    """Finds the call of a request."""

    def __init__(self, calls: Sequence[AnyCall] = CALLS) -> None:
        self.calls = calls
        # Literal segments come before variable ones.
        self._rows = sorted(((call.path.split("/"), call) for call in calls), key=_most_literal)

    def route(self, method: str, target: str) -> Route:
        """Return the call for `method` and `target` (path and query); HEAD means GET.

        Raises:
            HttpRefusal: 400: `target` is not a path; 404, 405: no such call.
        """
        path, query = split(target)
        segments = path.split("/")
        there = [
            (call, found) for template, call in self._rows if (found := _match_fields(template, segments)) is not None
        ]
        wanted = "GET" if method == "HEAD" else method
        for call, found in there:
            if call.method == wanted:
                return Route(call, found, query)
        if there:
            methods = ", ".join(dict.fromkeys(call.method for call, _ in there))
            raise HttpRefusal(
                405, f"{path[:SHOWN]}: method {method[:20]} is not allowed; use {methods}", ("allow", methods)
            )
        # To find the nearest call all paths are compared.
        raise HttpRefusal(404, lambda: f"{path[:SHOWN]} not found; the closest is {self._nearest(wanted, path)}")

    def _nearest(self, method: str, path: str) -> str:
        segments = path[:SHOWN].split("/")
        calls = [call for call in self.calls if call.method == method] or self.calls
        # Variable segments take the value in the path.
        filled = {_filled(call.path.split("/"), segments): call for call in reversed(calls)}
        (near,) = difflib.get_close_matches(path[:SHOWN], filled, n=1, cutoff=0)
        return f"{filled[near].method} {filled[near].path}"


def _filled(template: list[str], segments: list[str]) -> str:
    found = [
        segment if wanted.startswith("{") and segment else wanted
        for wanted, segment in zip_longest(template, segments[: len(template)], fillvalue="")
    ]
    return "/".join(found)


def _most_literal(row: tuple[list[str], AnyCall]) -> list[bool]:
    return [segment.startswith("{") for segment in row[0]]


def split(target: str) -> tuple[str, str]:
    """Return path and query. HttpRefusal 400: `target` is not a path."""
    try:
        found = urlsplit(target)
    except ValueError as error:
        raise HttpRefusal(400, f"invalid path {target[:100]!r}: {error}") from None
    return found.path, found.query


def _match_fields(template: list[str], segments: list[str]) -> list[tuple[str, str]] | None:
    """Return the fields in `segments`; None if the path does not match."""
    if len(template) != len(segments):
        return None
    found = []
    for wanted, segment in zip(template, segments, strict=True):
        if wanted.startswith("{"):
            if not segment:
                return None
            try:
                found.append((wanted[1:-1], unquote(segment, errors="strict")))
            except UnicodeDecodeError:
                raise HttpRefusal(400, f"path segment {segment[:100]!r} is not valid UTF-8") from None
        elif wanted != segment:
            return None
    return found
