"""Values that a field of a request could have, and values that it could not."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from ottla.server.control.operation import Length, Range
from ottla.server.http.fields import HttpField, fields_of, is_object, stripped
from ottla.server.http.json_values import decoded, is_union
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
    """Return the smallest JSON value that such a field accepts."""
    kind, inner = stripped(kind)
    marks += inner
    origin, arguments = get_origin(kind), get_args(kind)
    least = next((int(mark.low) for mark in marks if isinstance(mark, Range)), 0)
    length = next((mark.low for mark in marks if isinstance(mark, Length)), 0)
    if kind is bool:
        return False
    if kind in (int, float):
        return max(least, 0)
    if kind is str:
        return "x" * length
    if is_object(kind):
        return body(kind)
    if origin is Literal:
        return arguments[0]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind)).value
    if is_union(kind):
        return plausible(next(arm for arm in arguments if arm is not types.NoneType), marks)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {}
    if origin is tuple and arguments[1:] != (...,):
        return [plausible(each) for each in arguments]
    if origin in (tuple, Iterable, Sequence):
        return [plausible(arguments[0])] * length
    return None


def body(cls: type) -> dict[str, Any]:
    """Return all required fields."""
    return {name: plausible(field.type, field.marks) for name, field in fields_of(cls).items() if field.is_required}


def impossible(cls: type, field: HttpField) -> Iterator[Any]:
    """Yield values that `field` of `cls` does not accept."""
    for value in ANYTHING:
        try:
            decoded(cls, body(cls) | {field.name: value})
        except ControlError:
            yield value
