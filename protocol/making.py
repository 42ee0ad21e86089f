"""Objects of message classes, made faster than by calling the class.

The `__init__` of a frozen dataclass goes through `object.__setattr__` for every field: four times as slow, and
half of the time that reading a small Produce request took.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Message = TypeVar("Message")

_UNSEALED: dict[type[Any], type[Any]] = {}


def unsealed(cls: type[Any]) -> type[Any]:
    """A class of the same layout whose instances can be filled attribute by attribute and then become a `cls`."""
    if cls not in _UNSEALED:
        _UNSEALED[cls] = type(cls.__name__, (), {"__slots__": cls.__slots__})
    return _UNSEALED[cls]


def maker(cls: Callable[Parameters, Message]) -> Callable[Parameters, Message]:
    """What does as a message class when it is called, for those that nearly every answer has."""
    assert isinstance(cls, type)
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    text = "\n    ".join(
        [
            f"def make(*, {', '.join(f'{name}=default_{name}' for name in fields)}):",
            "made = Unsealed()",
            *(f"made.{name} = {name}" for name in fields),
            "made.__class__ = Sealed",
            "return made",
        ]
    )
    names: dict[str, Any] = {f"default_{name}": default for name, default in fields.items()}
    names |= {"Unsealed": unsealed(cls), "Sealed": cls}
    exec(compile(text, f"<make {cls.__name__}>", "exec"), names)  # noqa: S102 - of our own field names alone
    make: Callable[Parameters, Message] = names["make"]
    return make
