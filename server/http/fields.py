"""Fields of requests and responses: dataclasses with complete annotations.

Parsing, writing and the OpenAPI document use these annotations, so they agree.

    topic: TopicName                                        a text with bounds
    lease_ms: Annotated[int, Range(1, LEASE_MS_MAX)]        a number with bounds
    sources: Annotated[tuple[Source, ...], Length(1)]       an array with bounds
    lease: str | None = None                                optional

The docstring below a field is its description. `control.operation` declares the bounds.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class HttpField:
    """One field of a request or a response."""

    name: str
    type: Any
    """The type without `Annotated`."""
    marks: tuple[Any, ...]
    default: Any
    """MISSING if it is required; the product of a default factory."""

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


def stripped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type and its annotations, with or without `Annotated`."""
    if get_origin(annotation) is Annotated:
        bare, *marks = get_args(annotation)
        return bare, tuple(marks)
    return annotation, ()


def fields_of(cls: type) -> dict[str, HttpField]:
    """Return the fields of a dataclass, or of a named tuple, by name."""
    return _fields_of(cls)


def _read_fields(cls: type) -> dict[str, HttpField]:
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for name, default in _defaults(cls):
        bare, marks = stripped(hints[name])
        found[name] = HttpField(name, bare, marks, default)
    return found


def is_object(kind: Any) -> bool:
    """Return whether JSON represents this type by an object: a dataclass or a named tuple."""
    return isinstance(kind, type) and (is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")))


def doc_of(cls: type) -> str:
    """Return the docstring, unless `dataclass` made it."""
    doc = inspect.getdoc(cls) or ""
    return "" if doc.startswith(f"{cls.__name__}(") else doc


def docs_of(cls: type) -> dict[str, str]:
    """Return descriptions of the fields by name: the docstrings below them, or those in the field's metadata."""
    return _docs_of(cls)


def _defaults(cls: type) -> Iterator[tuple[str, Any]]:
    if not is_dataclass(cls):
        given = getattr(cls, "_field_defaults", {})
        yield from ((name, given.get(name, MISSING)) for name in getattr(cls, "_fields", ()))
        return
    for field in dataclass_fields(cls):
        yield field.name, field.default if field.default_factory is MISSING else field.default_factory()


def _docs(cls: type) -> Iterator[tuple[str, str]]:
    """Yield name and docstring of fields, if the source is available: the docstring follows its field."""
    for each in reversed(cls.__mro__):
        if not is_dataclass(each):
            continue
        yield from ((field.name, field.metadata["doc"]) for field in dataclass_fields(each) if "doc" in field.metadata)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in pairwise(body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    yield name, inspect.cleandoc(text)


_fields_of: Callable[[type], dict[str, HttpField]] = cache(_read_fields)
_docs_of: Callable[[type], dict[str, str]] = cache(lambda cls: dict(_docs(cls)))
