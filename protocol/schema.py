"""Declaration of messages: the annotations of a dataclass are its wire schema.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionResponse:
        index: Int32 = 0
        log_start_offset: Annotated[Int64, since(5)] = -1
        error_message: Annotated[String | None, since(8)] = None

To a type checker `Int32` is plain `int`; `wire.codec` finds the wire type in the annotation. Arrays are `tuple[X, ...]`,
structs are other dataclasses, nullable is `| None`. A field is written in the versions that its markers allow, and has
its default in all others. `fields_of` returns the fields of a class.
"""

import dataclasses
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, ParamSpec, Protocol, TypeVar

ZERO_UUID = bytes(16)

Parameters = ParamSpec("Parameters")
Message = TypeVar("Message")

_UNSEALED: dict[type[Any], type[Any]] = {}


class RecordsPart(Protocol):
    """Record batches inside a message: a memoryview into the frame when read; when written, any buffer or slice of a
    file that the connection can send."""

    def __len__(self) -> int: ...


# Markers are not named tuples: since(3) == until(3) would hold, and some releases of Python 3.11 cache
# `Annotated[Int32, until(3)]` by equality. The order of imports would then decide which fields a version has.
@dataclass(frozen=True, slots=True)
class Wire:
    """Wire format of an annotated type: a `struct` format of fixed size, or one of the names `string`, `bytes`,
    `records`."""

    type: str


@dataclass(frozen=True, slots=True)
class _OfVersion:
    """Base of the markers with a version; two of the same class and version are equal."""

    version: int


class since(_OfVersion):
    """Marker: the field exists from this version on."""

    __slots__ = ()


class until(_OfVersion):
    """Marker: the last version that has the field."""

    __slots__ = ()


class nullable_since(_OfVersion):
    """Marker: null may be sent from this version on. The type has `| None` for all versions."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class tag:
    """Marker of a tagged field (KIP-482): sent only when it differs from its default, after the others, with this number.

    Numbers from FIRST_PRIVATE_TAG on are Ottla's own. Kafka counts from 0 and skips unknown ones; private fields are sent
    only to clients that ask for them.
    """

    number: int


FIRST_PRIVATE_TAG = 10_000


Bool = Annotated[bool, Wire("?")]
Int8 = Annotated[int, Wire("b")]
Int16 = Annotated[int, Wire("h")]
UInt16 = Annotated[int, Wire("H")]
Int32 = Annotated[int, Wire("i")]
UInt32 = Annotated[int, Wire("I")]
Int64 = Annotated[int, Wire("q")]
Float64 = Annotated[float, Wire("d")]
Uuid = Annotated[bytes, Wire("16s")]
String = Annotated[str, Wire("string")]
Bytes = Annotated[bytes, Wire("bytes")]
Records = Annotated[RecordsPart, Wire("records")]


class Type(NamedTuple):
    """A wire type. `name` is that of its `Wire`, or `array` (`item` is its type), or `struct` (`struct` is its class)."""

    name: str
    item: "Type | None" = None
    struct: type[Any] | None = None


class Field(NamedTuple):
    """One field of a message class; `last` is None while it still exists, `nullable_from` None when never null."""

    name: str
    type: Type
    first: int
    last: int | None
    nullable_from: int | None
    tag: int | None
    default: Any

    def exists_in(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)

    @property
    def is_private(self) -> bool:
        """Whether the field is Ottla's own, which Kafka's definition of the message does not have."""
        return self.tag is not None and self.tag >= FIRST_PRIVATE_TAG

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_from is not None and version >= self.nullable_from


_FIELDS: dict[type[Any], list[Field]] = {}


def fields_of(cls: type[Any]) -> list[Field]:
    """Return all fields of a message class, in wire order."""
    if cls not in _FIELDS:
        hints = typing.get_type_hints(cls, include_extras=True)
        _FIELDS[cls] = [_field(f.name, hints[f.name], f.default) for f in dataclasses.fields(cls)]
    return _FIELDS[cls]


def _field(name: str, annotation: Any, default: Any) -> Field:
    first = 0
    last: int | None = None
    nullable_from: int | None = None
    number: int | None = None
    wire: Wire | None = None
    # Annotated flattens: Annotated[Int64, since(5)] is Annotated[int, Wire("q"), since(5)].
    if typing.get_origin(annotation) is Annotated:
        annotation, *marks = typing.get_args(annotation)
        for mark in marks:
            match mark:
                case Wire():
                    wire = mark
                case since():
                    first = mark.version
                case until():
                    last = mark.version
                case nullable_since():
                    nullable_from = mark.version
                case tag():
                    number = mark.number
                case _:
                    raise TypeError(f"{name}: {mark!r} is not a marker")
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        (annotation,) = (one for one in typing.get_args(annotation) if one is not types.NoneType)
        nullable_from = first if nullable_from is None else nullable_from
    elif nullable_from is not None:
        raise TypeError(f"{name}: nullable_since without `| None`")
    type = Type(wire.type) if wire is not None else _type(annotation)
    return Field(name, type, first, last, nullable_from, number, default)


def _type(annotation: Any) -> Type:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        (wire,) = (mark for mark in typing.get_args(annotation)[1:] if isinstance(mark, Wire))
        return Type(wire.type)
    if origin is tuple:
        return Type("array", item=_type(typing.get_args(annotation)[0]))
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return Type("struct", struct=annotation)
    raise TypeError(f"{annotation!r} has no wire type")


# The `__init__` of a frozen dataclass calls `object.__setattr__` for every field. That is four times as slow, and was half of
# the time for reading a small Produce request.


def unsealed(cls: type[Any]) -> type[Any]:
    """Return a class of the same layout whose instances can be filled attribute by attribute and then become a `cls`."""
    if cls not in _UNSEALED:
        _UNSEALED[cls] = type(cls.__name__, (), {"__slots__": cls.__slots__})
    return _UNSEALED[cls]


def maker(cls: Callable[Parameters, Message]) -> Callable[Parameters, Message]:
    """Return a faster constructor for a message class, for classes that nearly every response has."""
    assert isinstance(cls, type)
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    text = "\n    ".join(
        [
            # Not keyword-only: Python would look up each default in a dict.
            f"def make({', '.join(f'{name}=default_{name}' for name in fields)}):",
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
