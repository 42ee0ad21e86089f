"""From answers, frozen dataclasses, to JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from .decoding import spelt

Json = Any


def encoded(answer: object) -> bytes:
    """An answer as JSON, for a worker thread: others run meanwhile, as they would not with the encoder in C."""
    return "".join(json.JSONEncoder(allow_nan=False).iterencode(plain(answer))).encode() + b"\n"


def plain(value: Any) -> Json:
    """What JSON has for a value: objects for dataclasses and named tuples, texts for enumerations, base64 for bytes, null for
    what is no finite number. The keys of a mapping are the texts of what they are.
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
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {spelt(key) if isinstance(key, Enum) else str(key): plain(each) for key, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(each) for each in value]
    if isinstance(value, int | float | str):  # of a subclass
        return plain(_base(value)(value))
    raise TypeError(f"type {type(value).__name__} is not supported in responses")


def _base(value: float | str) -> Callable[[Any], Any]:
    return next(kind for kind in (bool, int, float, str) if isinstance(value, kind))


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    found: tuple[str, ...] | None = getattr(kind, "_fields", None)  # of named tuples
    return found
