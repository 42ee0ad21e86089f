"""Conversion of JSON, or of texts in a path and a query, to requests, and of responses to JSON. Both are frozen dataclasses.

An invalid field is named in one line.
"""

from __future__ import annotations

import base64
import json
import math
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from ..control.operation import INT64_MAX, Length, Matches, Range
from ..runtime.errors import ControlError, Kind, did_you_mean
from .fields import HttpField, fields_of, is_object, stripped

Request = TypeVar("Request")

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?", re.ASCII)
_ANY_INT = Range(-INT64_MAX - 1)


def decoded(cls: type[Request], found: Mapping[str, Any]) -> Request:
    """Return a request from a JSON object.

    Raises:
        ControlError: INVALID, for the first invalid field.
    """
    return _object(cls, found, "")  # type: ignore[no-any-return]


def from_texts(cls: type, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Convert the texts of a path or a query to the equivalent JSON values: a repeated name is an array.

    Raises:
        ControlError: INVALID: an unknown field, or one that is given twice.
    """
    known = fields_of(cls)
    found: dict[str, Any] = {}
    for name, text in pairs:
        if name not in known:
            raise ControlError(Kind.INVALID, _unknown(name, "", known))
        kind = _present(known[name].type)
        if (inner := _items(kind)) is not None:
            found.setdefault(name, []).append(_from_text(stripped(inner)[0], text))
        elif name in found:
            raise ControlError(Kind.INVALID, f"{name}: expected one value, found several")
        else:
            found[name] = _from_text(kind, text)
    return found


def _from_text(kind: Any, text: str) -> Any:
    kind = _present(kind)
    if kind is bool and text in ("true", "false"):
        return text == "true"
    if kind is int and _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if kind is float and _NUMBER.fullmatch(text):
        return float(text)
    return text


def _present(kind: Any) -> Any:
    """Return X of `X | None`."""
    arms = [each for each in get_args(kind) if each is not types.NoneType] if is_union(kind) else []
    return stripped(arms[0])[0] if len(arms) == 1 else kind


def is_union(kind: Any) -> bool:
    """Return whether it is `X | Y`."""
    return get_origin(kind) in (Union, types.UnionType)


def _items(kind: Any) -> Any:
    """Return the type of an array's items, None if it is not an array."""
    arguments = get_args(kind)
    if get_origin(kind) in (list, Iterable, Sequence) or (get_origin(kind) is tuple and arguments[1:] == (...,)):
        return arguments[0]
    return None


def _value(kind: Any, marks: tuple[Any, ...], found: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return found
    if kind in _SCALARS:
        return _SCALARS[kind](marks, found, where)
    if is_object(kind):
        return _object(kind, found, f"{where}.")
    if origin is Literal:
        return _one_of(get_args(kind), found, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _one_of({spelt(each): each for each in kind}, found, where)
    if is_union(kind):
        return _union(kind, marks, found, where)
    if (inner := _items(kind)) is not None:
        bare, inner_marks = stripped(inner)
        array = [
            _value(bare, inner_marks, each, f"{where}[{at}]") for at, each in enumerate(_array(marks, found, where))
        ]
        return array if origin is list else tuple(array)
    if origin is tuple:
        return _tuple(get_args(kind), found, where)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        bare, inner_marks = stripped(get_args(kind)[1])
        return {
            _text((), name, where): _value(bare, inner_marks, each, f"{where}.{name[:100]}")
            for name, each in _checked_length(marks, _mapping(found, where), where).items()
        }
    raise TypeError(f"{where}: type {kind} is not supported in requests")


def spelt(member: Enum) -> str:
    """Return a member of an enumeration as in JSON: its value if that is a text, else its name."""
    return member.value if isinstance(member.value, str) else member.name.lower()


def _object(cls: type, found: Any, prefix: str) -> Any:
    known = fields_of(cls)
    given = _mapping(found, prefix.removesuffix("."))
    for name in given:
        if name not in known:
            raise ControlError(Kind.INVALID, _unknown(name, prefix, known))
    return cls(**{name: _field(field, given, prefix + name) for name, field in known.items()})


def _field(field: HttpField, given: Mapping[str, Any], where: str) -> Any:
    if field.name in given:
        return _value(field.type, field.marks, given[field.name], where)
    if field.is_required:
        raise ControlError(
            Kind.INVALID, f"{where}: expected {_expected(field.type, field.marks)}, but the field is missing"
        )
    return field.default


def _unknown(name: str, prefix: str, known: Mapping[str, HttpField]) -> str:
    among = did_you_mean(name, known) or (
        f"; expected one of: {', '.join(known)}" if known else "; no fields are expected"
    )
    return f"unknown field {prefix + name[:100]!r}{among}"


def _mapping(found: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise _wrong(where, "an object", found)
    return found


def _array(marks: tuple[Any, ...], found: Any, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise _wrong(where, "an array", found)
    return _checked_length(marks, found, where)


def _tuple(kinds: tuple[Any, ...], found: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(found, list) or len(found) != len(kinds):
        raise _wrong(where, f"an array of {len(kinds)}", found)
    return tuple(
        _value(*stripped(kind), each, f"{where}[{at}]")
        for at, (kind, each) in enumerate(zip(kinds, found, strict=True))
    )


def _one_of(names: Any, found: Any, where: str) -> Any:
    if not isinstance(found, str) or found not in names:
        hint = did_you_mean(found, names) if isinstance(found, str) else ""
        raise ControlError(
            Kind.INVALID, f"{where}: expected one of {', '.join(names)}, found {describe_value(found)}{hint}"
        )
    return names[found] if isinstance(names, dict) else found


def _union(kind: Any, marks: tuple[Any, ...], found: Any, where: str) -> Any:
    arms = get_args(kind)
    if found is None and types.NoneType in arms:
        return None
    errors = []
    for arm in arms:
        if arm is types.NoneType:
            continue
        bare, arm_marks = stripped(arm)
        try:
            return _value(bare, marks + arm_marks, found, where)
        except ControlError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    raise _wrong(where, _expected(kind, marks), found)


def _bool(_marks: tuple[Any, ...], found: Any, where: str) -> bool:
    if not isinstance(found, bool):
        raise _wrong(where, "true or false", found)
    return found


def _int(marks: tuple[Any, ...], found: Any, where: str) -> int:
    bound = _mark(marks, Range, _ANY_INT)
    if not isinstance(found, int) or isinstance(found, bool) or not bound.low <= found <= bound.high:
        raise _wrong(where, _expected(int, marks), found)
    return found


def _float(marks: tuple[Any, ...], found: Any, where: str) -> float:
    bound = _mark(marks, Range, Range(-math.inf, math.inf))
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and -1e308 <= found <= 1e308
    if not is_number or not bound.low <= found <= bound.high:
        raise _wrong(where, _expected(float, marks), found)
    return float(found)


def _text(marks: tuple[Any, ...], found: Any, where: str) -> str:
    if not isinstance(found, str):
        raise _wrong(where, "a string", found)
    matches = _mark(marks, Matches, None)
    if matches is not None and not re.fullmatch(matches.pattern, found):
        raise _wrong(where, f"a string with {matches.words}", found)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise _wrong(where, "a string of valid Unicode", found) from None
    return _checked_length(marks, found, where)


def _bytes(marks: tuple[Any, ...], found: Any, where: str) -> bytes:
    if isinstance(found, str):
        try:
            return _checked_length(marks, base64.b64decode(found, validate=True), where)
        except ValueError:
            pass
    raise _wrong(where, "bytes in base64", found)


_SCALARS = {bool: _bool, int: _int, float: _float, str: _text, bytes: _bytes}

Sized = TypeVar("Sized", str, bytes, list[Any], Mapping[str, Any])


def _checked_length(marks: tuple[Any, ...], found: Sized, where: str) -> Sized:
    bound = _mark(marks, Length, Length(0))
    if not bound.low <= len(found) <= bound.high:
        unit = "characters" if isinstance(found, str) else "bytes" if isinstance(found, bytes) else "members"
        high = f" to {bound.high}" if bound.high < INT64_MAX else " or more"
        raise ControlError(Kind.INVALID, f"{where}: expected {bound.low}{high} {unit}, found {len(found)}")
    return found


def _mark(marks: tuple[Any, ...], kind: type, default: Any) -> Any:
    return next((mark for mark in marks if isinstance(mark, kind)), default)


def _expected(kind: Any, marks: tuple[Any, ...]) -> str:
    """Describe what a field accepts."""
    if is_union(kind):
        arms = [stripped(arm) for arm in get_args(kind)]
        return " or ".join(_expected(arm, marks + arm_marks) for arm, arm_marks in arms)
    if kind in (int, float):
        bound = _mark(marks, Range, None)
        what = "an integer" if kind is int else "a number"
        return f"{what} from {bound.low} to {bound.high}" if bound else what
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"one of {', '.join(map(spelt, kind))}"
    words = {bool: "true or false", str: "a string", bytes: "bytes in base64", types.NoneType: "null"}
    if kind in words:
        return words[kind]
    return "an object" if is_object(kind) or (_items(kind) is None and get_origin(kind) is not tuple) else "an array"


def _wrong(where: str, expected: str, found: Any) -> ControlError:
    return ControlError(Kind.INVALID, f"{where or 'body'}: expected {expected}, found {describe_value(found)}")


def describe_value(found: object) -> str:
    """Return a received value in at most a hundred characters."""
    return reprlib.repr(found)[:100]


Json = Any


def encoded(answer: object) -> bytes:
    """Return a response as JSON, for a worker thread. Unlike the encoder in C, this lets other threads run."""
    return "".join(json.JSONEncoder(allow_nan=False).iterencode(json_form(answer))).encode() + b"\n"


def json_form(value: Any) -> Json:
    """Return the JSON form of a value.

    Dataclasses and named tuples become objects, enumerations texts, bytes base64, and infinite numbers and NaN null.
    Keys of a mapping are converted to texts.
    """
    kind: Any = type(value)
    if kind in (str, int, bool) or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is bytes:
        return base64.b64encode(value).decode()
    if isinstance(value, Enum):
        return spelt(value)
    if (names := _names(kind)) is not None:
        return {name: json_form(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {spelt(key) if isinstance(key, Enum) else str(key): json_form(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [json_form(each) for each in value]
    if isinstance(value, int | float | str):  # an instance of a subclass
        return json_form(_base(value)(value))
    raise TypeError(f"type {type(value).__name__} is not supported in responses")


def _base(value: float | str) -> Callable[[Any], Any]:
    return next(kind for kind in (bool, int, float, str) if isinstance(value, kind))


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    found: tuple[str, ...] | None = getattr(kind, "_fields", None)  # fields of named tuples
    return found
