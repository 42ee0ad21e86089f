"""Values that a field of a request could have, and values that it could not."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from ottla.server.control.operation import Length, Range
from ottla.server.http.fields import HttpField, fields_of, is_object, stripped
from ottla.server.http.json_values import decoded, is_union, spelt
from ottla.server.runtime.errors import ControlError

ANYTHING: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**64),
    10**400,
    0.5,
    1e308,
    "",
    "x",
    "0",
    "\0",
    "a\nb",
    "\ud800",
    "../../etc/passwd",
    "x" * 5_000,
    "ü" * 300,
    "%00%ff",
    [],
    [[]],
    [None],
    [{}],
    ["x"] * 100,
    {},
    {"x": 1},
    {"a\nb": 1},
    {"topic": "t"},
    {"": {"": {"": []}}},
]


def plausible(kind: Any, marks: tuple[Any, ...] = ()) -> Any:
    """JSON that such a field takes: the least of it."""
    kind, inner = stripped(kind)
    marks += inner
    origin, arguments = get_origin(kind), get_args(kind)
    least = next((int(mark.low) for mark in marks if isinstance(mark, Range)), 0)
    length = next((mark.low for mark in marks if isinstance(mark, Length)), 0)
    if kind is bool:
        return False
    if kind in (int, float):
        return max(least, 0)
    if kind in (str, bytes):
        return "x" * length if kind is str else ""
    if is_object(kind):
        return body(kind)
    if origin is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return spelt(next(iter(kind)))
    if is_union(kind):
        return plausible(next(arm for arm in arguments if arm is not types.NoneType), marks)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    if origin is tuple and arguments[1:] != (...,):
        return [plausible(each) for each in arguments]
    if origin in (list, tuple):
        return [plausible(arguments[0])] * length
    return None


def body(cls: type) -> dict[str, Any]:
    """All fields that have to be given."""
    return {name: plausible(field.type, field.marks) for name, field in fields_of(cls).items() if field.is_required}


def impossible(cls: type, field: HttpField) -> Iterator[Any]:
    """Values that `field` of `cls` does not take."""
    for value in ANYTHING:
        try:
            decoded(cls, body(cls) | {field.name: value})
        except ControlError:
            yield value
