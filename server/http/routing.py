"""Routing of requests: from method and path to a call, in a table of any listener."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import zip_longest
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from .access import HttpRefusal

SHOWN = 100
"""Maximum characters of a path that are compared, or shown in an error."""


class Routable(Protocol):
    """Facts about a call that routing, and the connection of a request, need; see `Call`."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def only_waits(self) -> bool: ...

    @property
    def without_token(self) -> bool: ...


C = TypeVar("C", bound=Routable)


class Route(NamedTuple, Generic[C]):
    """The call of a request, with the values in the request's target."""

    call: C
    from_path: list[tuple[str, str]]
    """Name and text of each field in the path, percent-decoded."""
    query: str


class RouteTable(Generic[C]):
    """Finds the call of a request."""

    def __init__(self, calls: Sequence[C]) -> None:
        self.calls = calls
        # Literal segments come before variable ones.
        rows = sorted(((call.path.split("/"), call) for call in calls), key=_most_literal)
        self._rows: dict[tuple[int, str], list[tuple[list[str], C]]] = {}
        """Templates and calls by the number of segments and the first one, which is never variable."""
        for row in rows:
            self._rows.setdefault((len(row[0]), row[0][1]), []).append(row)

    def parts(self, target: str) -> tuple[str, str]:
        """Return path and query of a target. HttpRefusal 400: it is not a path."""
        return split(target)

    def route(self, method: str, target: str) -> Route[C]:
        """Return the call for `method` and `target` (path and query); HEAD means GET.

        Raises:
            HttpRefusal: 400: `target` is not a path; 404, 405: no such call.
        """
        path, query = self.parts(target)
        segments = path.split("/")
        there = [
            (call, found)
            for template, call in self._rows.get((len(segments), segments[1] if len(segments) > 1 else ""), ())
            if (found := _match_fields(template, segments)) is not None
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


def _most_literal(row: tuple[list[str], object]) -> list[bool]:
    return [segment.startswith("{") for segment in row[0]]


def split(target: str) -> tuple[str, str]:
    """Return path and query. HttpRefusal 400: `target` is not a path."""
    try:
        found = urlsplit(target)
    except ValueError as error:
        raise HttpRefusal(400, f"invalid path {target[:100]!r}: {error}") from None
    return found.path, found.query


def _match_fields(template: list[str], segments: list[str]) -> list[tuple[str, str]] | None:
    """Return the fields in `segments`; None if the path does not match a template of the same length."""
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
