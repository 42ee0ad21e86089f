"""JSON Schema (2020-12, as OpenAPI 3.1 has it) of requests and answers, from their annotations alone."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from ..control.operation import INT64_MAX, Length, Matches, Range
from .decoding import is_union, spelt
from .encoding import plain
from .fields import HttpField, doc_of, docs_of, fields_of, is_object, stripped

Schema = dict[str, Any]

_SCALARS: dict[Any, Schema] = {
    Any: {},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    types.NoneType: {"type": "null"},
}


class Schemas:
    """The schemas of dataclasses, each once under its name: `components` fills as others ask for it.

    Args:
        of_answers: They always have all fields. In requests those with a default may be left out.
    """

    def __init__(self, *, of_answers: bool) -> None:
        self.components: dict[str, Schema] = {}
        self._of_answers = of_answers
        self._classes: dict[str, type] = {}

    def of(self, kind: Any, marks: tuple[Any, ...] = ()) -> Schema:
        """The schema of a type; of a dataclass a reference to its component."""
        kind, inner = stripped(kind)
        return self._of(kind) | _bounds(marks + inner, kind)

    def field(self, cls: type, field: HttpField) -> Schema:
        """The schema of a field, with its description and default."""
        found = self.of(field.type, field.marks)
        if doc := docs_of(cls).get(field.name):
            found["description"] = doc
        if field.default is not MISSING and not self._of_answers:
            found["default"] = plain(field.default)
        return found

    def _of(self, kind: Any) -> Schema:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is float and self._of_answers:
            return {"type": ["number", "null"]}  # what is no finite number
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if is_object(kind):
            return {"$ref": f"#/components/schemas/{self._component(kind)}"}
        if origin is Literal:
            return {"enum": list(arguments)}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [spelt(member) for member in kind]}
        if is_union(kind):
            return _any_of([self.of(each) for each in arguments])
        if origin is tuple and arguments[1:] != (...,):
            prefix = [self.of(each) for each in arguments]
            return {"type": "array", "prefixItems": prefix, "minItems": len(prefix), "maxItems": len(prefix)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin in (list, tuple, set, frozenset, Iterable, Sequence):
            return {"type": "array", "items": self.of(arguments[0])}
        raise TypeError(f"type {kind} has no schema")

    def _component(self, cls: type) -> str:
        name = cls.__name__ if self._of_answers else f"{cls.__name__.removesuffix('Request')}Request"
        if self._classes.setdefault(name, cls) is not cls:
            raise TypeError(f"duplicate dataclass name {name}: {self._classes[name]} and {cls}")
        if name not in self.components:
            self.components[name] = {}  # it may contain itself
            known = fields_of(cls)
            found: Schema = {
                "type": "object",
                "properties": {field.name: self.field(cls, field) for field in known.values()},
                "required": [field.name for field in known.values() if self._of_answers or field.is_required],
                "additionalProperties": False,
            }
            if doc := doc_of(cls):
                found["description"] = doc
            self.components[name] = found
        return name


def _any_of(arms: list[Schema]) -> Schema:
    """One of several; where each is but a type, a list of types."""
    if all(arm.keys() <= {"type"} and arm for arm in arms):
        kinds = [arm["type"] if isinstance(arm["type"], list) else [arm["type"]] for arm in arms]
        return {"type": list(dict.fromkeys(kind for each in kinds for kind in each))}
    return {"anyOf": arms}


def _bounds(marks: tuple[Any, ...], kind: Any) -> Schema:
    found: Schema = {}
    is_text = kind in (str, bytes)
    for mark in marks:
        match mark:
            case Range(low, high):
                found |= {"minimum": low} | ({"maximum": high} if high < INT64_MAX else {})
            case Length(low, high):
                lowest, highest = ("minLength", "maxLength") if is_text else ("minItems", "maxItems")
                found |= ({lowest: low} if low else {}) | ({highest: high} if high < INT64_MAX else {})
            case Matches(pattern):
                found["pattern"] = f"^(?:{pattern})$"
    return found
